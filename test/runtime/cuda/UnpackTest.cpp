//===- UnpackTest.cpp - unpacking the weights of a layer on a GPU ---------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// With the driver of FakeCuda.cpp, whose memory is the host's: the host device
// packs, and a layer on the GPU takes what was packed.
//
//===----------------------------------------------------------------------===//

#include "test/runtime/api/ApiTesting.h"
#include "test/runtime/cuda/CudaTesting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace moec;
using namespace moec::test;
using testing::HasSubstr;

namespace {
class UnpackOnCuda : public testing::Test {
protected:
  UnpackOnCuda() {
    *fakeGpu() = {};
    const TinyLayer host;
    const LayerHandle packing(host.package, weights.tensors());
    EXPECT_EQ(packing.status, MOEC_OK) << moec_last_error();
    loadPacked(loadablePackage(), weights.tensors(), package, layer);
    *fakeGpu() = {};
  }
  ~UnpackOnCuda() override {
    moec_layer_destroy(layer);
    moec_package_destroy(package);
  }
  UnpackOnCuda(const UnpackOnCuda &) = delete;
  UnpackOnCuda &operator=(const UnpackOnCuda &) = delete;

  moec_status unpack(void *w13, void *w2, bool toHost = false) {
    moec_unpack_options options = {};
    options.struct_size = sizeof(options);
    options.to_host = toHost;
    const moec_tensor to[] = {tensor("w13", w13, given.w13Shape),
                              tensor("w2", w2, given.w2Shape)};
    return moec_layer_unpack(layer, to, 2, &options, nullptr);
  }

  Weights given{{}, 1}, weights{{}, 1};
  moec_package *package = nullptr;
  moec_layer *layer = nullptr;
  Buffer first{given.w13.bytes() + 1}, second{given.w2.bytes() + 1};
};
} // namespace

TEST_F(UnpackOnCuda, ThroughHostMemory) {
  ASSERT_EQ(unpack(first.data(), second.data()), MOEC_OK) << moec_last_error();
  EXPECT_EQ(std::memcmp(first.data(), given.w13.data(), given.w13.bytes()), 0);
  EXPECT_EQ(std::memcmp(second.data(), given.w2.data(), given.w2.bytes()), 0);
  // Three experts and one of w13, down and up again, and w2.
  EXPECT_EQ(fakeGpu()->copies, 5);
  EXPECT_GE(fakeGpu()->synchronizations, 1);
}

TEST_F(UnpackOnCuda, ToHostMemoryOfAnyAlignment) {
  char *w13 = first.as<char>() + 1, *w2 = second.as<char>() + 1;
  ASSERT_EQ(unpack(w13, w2, /*toHost=*/true), MOEC_OK) << moec_last_error();
  EXPECT_EQ(std::memcmp(w13, given.w13.data(), given.w13.bytes()), 0);
  EXPECT_EQ(std::memcmp(w2, given.w2.data(), given.w2.bytes()), 0);
  EXPECT_EQ(fakeGpu()->copies, 3);
  EXPECT_EQ(unpack(w13, w2), MOEC_MISALIGNED);
}

TEST_F(UnpackOnCuda, InPlace) {
  ASSERT_EQ(unpack(weights.w13.data(), weights.w2.data()), MOEC_OK)
      << moec_last_error();
  EXPECT_TRUE(weights.w13 == given.w13);
  EXPECT_TRUE(weights.w2 == given.w2);
  EXPECT_EQ(unpack(first.data(), second.data()), MOEC_INVALID_ARGUMENT);
  EXPECT_THAT(moec_last_error(), HasSubstr("unpacked in place already"));
}

/// Host memory is no memory of the layer, whatever its address.
TEST_F(UnpackOnCuda, ToHostIsNeverInPlace) {
  ASSERT_EQ(unpack(weights.w13.data(), second.data(), /*toHost=*/true), MOEC_OK)
      << moec_last_error();
  EXPECT_TRUE(weights.w13 == given.w13);
  EXPECT_EQ(unpack(first.data(), second.data(), /*toHost=*/true), MOEC_OK)
      << moec_last_error();
}

TEST_F(UnpackOnCuda, NotInACapture) {
  fakeGpu()->capturing = true;
  EXPECT_EQ(unpack(first.data(), second.data()), MOEC_CAPTURING);
  EXPECT_THAT(moec_last_error(), HasSubstr("unpacking a layer"));
  EXPECT_EQ(fakeGpu()->copies, 0);
}

TEST_F(UnpackOnCuda, CopiesThatFail) {
  for (int copy = 1; copy <= 5; ++copy) {
    fakeGpu()->copies = 0;
    fakeGpu()->failAt = copy;
    EXPECT_EQ(unpack(first.data(), second.data()), MOEC_DRIVER_FAILED) << copy;
    EXPECT_THAT(moec_last_error(), HasSubstr("FAKE_ERROR"));
  }
  // In place, a part may be unpacked already: the layer must not run.
  fakeGpu()->copies = 0;
  fakeGpu()->failAt = 3;
  EXPECT_EQ(unpack(weights.w13.data(), weights.w2.data()), MOEC_DRIVER_FAILED);
  fakeGpu()->failAt = 0;
  EXPECT_EQ(unpack(first.data(), second.data()), MOEC_INVALID_ARGUMENT);
}

/// A repack that fails has packed some experts at best.
TEST_F(UnpackOnCuda, UntilAllArePackedAgain) {
  ASSERT_EQ(unpack(weights.w13.data(), weights.w2.data()), MOEC_OK)
      << moec_last_error();
  const std::vector<moec_tensor> list = weights.tensors();
  const auto repack = [&](int64_t first, int64_t count) {
    return moec_layer_repack(layer, list.data(), 1, first, count, nullptr, 0,
                             nullptr);
  };
  EXPECT_EQ(repack(0, 3), MOEC_INVALID_ARGUMENT);
  EXPECT_EQ(repack(1, 3), MOEC_INVALID_ARGUMENT);
  EXPECT_EQ(repack(0, 4), MOEC_DRIVER_FAILED) << "no launch succeeds";
  EXPECT_EQ(unpack(first.data(), second.data()), MOEC_INVALID_ARGUMENT);
  EXPECT_THAT(moec_last_error(), HasSubstr("unpacked in place already"));
  fakeGpu()->onLaunch = [](const char *, bool) {};
  EXPECT_EQ(repack(0, 4), MOEC_OK) << moec_last_error();
  EXPECT_EQ(unpack(first.data(), second.data()), MOEC_OK) << moec_last_error();
}
