//===- StreamTest.cpp - which stream gets the work of a call --------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Launches, copies and waits of the driver of FakeCuda.cpp are on the stream
// that the caller gives.
//
//===----------------------------------------------------------------------===//

#include "test/runtime/cuda/CudaTesting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace moec;
using namespace moec::test;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::IsSupersetOf;

namespace {
class Streams : public testing::Test {
protected:
  Streams() {
    reset();
    PackageFiles files = loadablePackage();
    // Its numbers are read before it is packed.
    files.manifest.values.push_back(
        value("b2", ValueRole::StoredWeight, {"f32"}, {4, 16}));
    const moec_package_files handle{{std::move(files)}};
    moec_load_options options = {};
    options.struct_size = sizeof(options);
    options.cache_dir = "";
    EXPECT_EQ(kDriverIsSet, 0);
    EXPECT_EQ(moec_package_load_files(&handle, &options, &package), MOEC_OK)
        << moec_last_error();
    std::fill_n(bias.as<float>(), 4 * 16, 1.0f);
    tensors.push_back(tensor("b2", bias.data(), {4, 16}));
  }
  ~Streams() override {
    moec_layer_destroy(layer);
    moec_package_destroy(package);
    *fakeGpu() = {};
  }
  Streams(const Streams &) = delete;
  Streams &operator=(const Streams &) = delete;

  static void reset() {
    *fakeGpu() = {};
    fakeGpu()->onLaunch = [](const char *, bool) {};
  }
  void create(void *scratch = nullptr, uint64_t bytes = 0) {
    moec_layer_options options = {};
    options.struct_size = sizeof(options);
    options.scratch = scratch;
    options.scratch_bytes = bytes;
    ASSERT_EQ(moec_layer_create(package, tensors.data(), tensors.size(),
                                &options, stream, &layer),
              MOEC_OK)
        << moec_last_error();
  }

  int place = 0;
  void *const stream = &place;
  const Weights weights{{}, 1};
  const Buffer bias{4 * 16 * 4};
  std::vector<moec_tensor> tensors = weights.tensors();
  moec_package *package = nullptr;
  moec_layer *layer = nullptr;
};
} // namespace

TEST_F(Streams, OfALayer) {
  uint64_t bytes = 0;
  ASSERT_EQ(moec_package_pack_scratch_bytes(package, &bytes), MOEC_OK);
  const Buffer scratch(bytes);
  reset();
  create(scratch.data(), bytes);
  EXPECT_THAT(fakeGpu()->worked, ElementsAre(stream));
  EXPECT_THAT(fakeGpu()->waited, ElementsAre(stream)) << "for the biases";
  EXPECT_THAT(fakeGpu()->asked, ElementsAre(stream));
  moec_layer_destroy(std::exchange(layer, nullptr));
  reset();
  create();
  EXPECT_THAT(fakeGpu()->worked, ElementsAre(stream));
  EXPECT_THAT(fakeGpu()->waited, ElementsAre(stream));
}

TEST_F(Streams, OfARepack) {
  create();
  const auto repack = [&](void *scratch, uint64_t bytes) {
    reset();
    EXPECT_EQ(moec_layer_repack(layer, tensors.data(), 1, 0, 4, scratch, bytes,
                                stream),
              MOEC_OK)
        << moec_last_error();
    EXPECT_THAT(fakeGpu()->worked, ElementsAre(stream));
  };
  repack(nullptr, 0);
  EXPECT_THAT(fakeGpu()->waited, ElementsAre(stream)) << "to free the scratch";
  EXPECT_THAT(fakeGpu()->asked, ElementsAre(stream));
  uint64_t bytes = 0;
  ASSERT_EQ(moec_package_pack_scratch_bytes(package, &bytes), MOEC_OK);
  const Buffer scratch(bytes);
  repack(scratch.data(), bytes);
  EXPECT_THAT(fakeGpu()->waited, IsEmpty());
}

/// The copies are on the default stream, which is waited for, after the
/// caller's.
TEST_F(Streams, OfAnUnpack) {
  create();
  reset();
  const Weights to({}, 2);
  moec_unpack_options options = {};
  options.struct_size = sizeof(options);
  ASSERT_EQ(moec_layer_unpack(layer, to.tensors().data(), 2, &options, stream),
            MOEC_OK)
      << moec_last_error();
  EXPECT_THAT(fakeGpu()->asked, ElementsAre(stream));
  EXPECT_THAT(fakeGpu()->worked, ElementsAre(nullptr));
  EXPECT_THAT(fakeGpu()->waited,
              IsSupersetOf({stream, static_cast<void *>(nullptr)}));
}

TEST_F(Streams, OfARun) {
  create();
  const OwnContext context(package, 64);
  ASSERT_EQ(context.status, MOEC_OK) << moec_last_error();
  RunData data({}, 64);
  reset();
  ASSERT_EQ(moec_run(layer, context.handle, stream, data.tensors().data(),
                     data.tensors().size(), 64, nullptr),
            MOEC_OK)
      << moec_last_error();
  EXPECT_THAT(fakeGpu()->worked, ElementsAre(stream));
  EXPECT_THAT(fakeGpu()->waited, IsEmpty());
}

/// Runs are on streams that do not wait for the default one, which zeroes the
/// state.
TEST(StreamsOfState, AreWaitedFor) {
  *fakeGpu() = {};
  EXPECT_EQ(kDriverIsSet, 0);
  moec_package_files files{{loadablePackage()}};
  Target &target = files.shares[0].manifest.targets[0];
  target.values.push_back(value("flags", ValueRole::State, {"i32"}, {75}));
  target.stateRegions = {{"flags", 0}};
  target.stateBytes = 300;
  moec_load_options load = {};
  load.struct_size = sizeof(load);
  load.cache_dir = "";
  moec_package *package = nullptr;
  ASSERT_EQ(moec_package_load_files(&files, &load, &package), MOEC_OK)
      << moec_last_error();
  const Buffer state(300);
  moec_context_options options = {};
  options.struct_size = sizeof(options);
  for (void *memory : {state.data(), static_cast<void *>(nullptr)}) {
    fakeGpu()->contextSynchronizations = 0;
    options.state = memory;
    options.state_bytes = memory ? 300 : 0;
    moec_context *context = nullptr;
    ASSERT_EQ(moec_context_create(package, nullptr, 0, &options, &context),
              MOEC_OK)
        << moec_last_error();
    EXPECT_EQ(fakeGpu()->contextSynchronizations, 1);
    moec_context_destroy(context);
  }
  for (int i = 0; i < 300; ++i)
    ASSERT_EQ(state.as<unsigned char>()[i], 0) << i;
  moec_package_destroy(package);
}
