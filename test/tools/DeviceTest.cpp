//===- DeviceTest.cpp - the device of the tools on a fake driver ----------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/device/Device.h"

#include "test/runtime/cuda/CudaTesting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

using namespace moec;
using namespace moec::test;
using testing::ElementsAre;
using testing::HasSubstr;
using tools::Device;

namespace {

class Tools : public testing::Test {
protected:
  Tools() {
    EXPECT_EQ(kDriverIsSet, 0);
    *fakeGpu() = {};
  }
  ~Tools() override { *fakeGpu() = {}; }

  static Result<Device> open() {
    return Device::open(runtime::DeviceKind::Cuda);
  }
  /// The median of launches with such times, and how many there were.
  static std::pair<double, int> median(const std::vector<float> &times,
                                       const tools::Replays &replays) {
    auto device = open();
    EXPECT_TRUE(device) << device.error().message;
    fakeGpu()->graphTimes = times;
    fakeGpu()->graphLaunches = fakeGpu()->launchesRecorded = 0;
    const Result<double> found =
        device->median([] { return Result<void>(); }, replays);
    EXPECT_TRUE(found);
    return {*found, fakeGpu()->graphLaunches};
  }
};

} // namespace

TEST_F(Tools, AGpu) {
  auto device = open();
  ASSERT_TRUE(device) << device.error().message;
  EXPECT_FALSE(device->onHost());
  EXPECT_EQ(device->name(), "fake GPU");
  EXPECT_EQ(device->driverVersion(), 13020);
  EXPECT_EQ(*device->freeBytes(), 12345);
  EXPECT_NE(device->stream(0), device->stream(1));
  EXPECT_TRUE(device->synchronize(1));
  EXPECT_THAT(fakeGpu()->waited, ElementsAre(device->stream(1)));
  EXPECT_TRUE(device->synchronize());
  EXPECT_EQ(fakeGpu()->waited.size(), 2u);
  EXPECT_EQ(fakeGpu()->contextSynchronizations, 0);
  EXPECT_TRUE(device->synchronizeAll());
  EXPECT_EQ(fakeGpu()->contextSynchronizations, 1);
}

TEST_F(Tools, BytesOfAGpu) {
  auto device = open();
  ASSERT_TRUE(device) << device.error().message;
  auto first = device->allocate(300), second = device->allocate(0);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->bytes(), 300);
  EXPECT_EQ(second->bytes(), 0);
  // Whole units of the alignment, and one at least.
  const auto piece = [](const tools::Buffer &buffer) {
    return fakeGpuPieceBytes(reinterpret_cast<uint64_t>(buffer.data()));
  };
  EXPECT_EQ(piece(*first), 512u);
  EXPECT_EQ(piece(*second), 256u);
  std::vector<unsigned char> given(300), got(300);
  for (size_t i = 0; i < given.size(); ++i)
    given[i] = static_cast<unsigned char>(i * 7);
  EXPECT_TRUE(device->upload(first->data(), given.data(), 300));
  // A kernel of another stream reads the bytes.
  EXPECT_EQ(fakeGpu()->waited.count(runtime::cuda::legacyStream()), 1u);
  EXPECT_TRUE(device->download(got.data(), first->data(), 299));
  EXPECT_EQ(got[299], 0);
  got[299] = given[299];
  EXPECT_EQ(got, given);
  EXPECT_TRUE(device->fill(first->data(), 0x5A, 299));
  EXPECT_EQ(fakeGpu()->contextSynchronizations, 1) << "cuMemsetD8 does not";
  const auto *bytes = static_cast<const unsigned char *>(first->data());
  EXPECT_EQ(std::count(bytes, bytes + 299, 0x5A), 299);
  EXPECT_EQ(bytes[299], given[299]);
  EXPECT_TRUE(device->copy(second->data(), first->data(), 250));
  EXPECT_THAT(fakeGpu()->worked, ElementsAre(device->stream(0)));
  *first = std::move(*second);
}

/// Warm-ups are not timed, and the median is that of one replay.
TEST_F(Tools, MediansOfReplays) {
  EXPECT_EQ(
      median({50, 60, 5, 1, 9}, {.warmups = 2, .least = 3, .budgetMs = 0}),
      std::pair(5.0, 5));
  EXPECT_EQ(median({50, 4, 1, 9, 2}, {.warmups = 1, .least = 4, .budgetMs = 0}),
            std::pair(3.0, 5));
  // As many as the budget has time for, and no more than the most.
  EXPECT_EQ(median({2}, {.warmups = 0, .least = 3, .budgetMs = 20}),
            std::pair(2.0, 10));
  EXPECT_EQ(median({2}, {.warmups = 0, .least = 3, .most = 7, .budgetMs = 20}),
            std::pair(2.0, 7));
  EXPECT_EQ(median({2}, {.warmups = 0, .least = 30, .budgetMs = 20}),
            std::pair(2.0, 30));
  // Three replays tell how many a timing needs: 4 of 5 ms in 20 ms.
  EXPECT_EQ(
      median({5}, {.warmups = 0, .least = 2, .budgetMs = 0, .eachMs = 20}),
      std::pair(5.0, 3 + 2 * 4));
  EXPECT_EQ(median({5}, {.warmups = 0, .least = 2, .budgetMs = 0, .eachMs = 1}),
            std::pair(5.0, 3 + 2));
  EXPECT_EQ(
      median({1e-6F}, {.warmups = 0, .least = 1, .budgetMs = 0, .eachMs = 20})
          .second,
      3 + 500);
  EXPECT_EQ(
      median({5}, {.warmups = 0, .least = 1, .budgetMs = 60, .eachMs = 20}),
      std::pair(5.0, 3 + 3 * 4))
      << "the budget is of all replays of a timing";
}

/// The device idles after a first replay that takes long.
TEST_F(Tools, IdleTimes) {
  const auto spent = [](float first) {
    const auto begin = std::chrono::steady_clock::now();
    median({first, 90}, {.warmups = 3,
                         .least = 1,
                         .budgetMs = 0,
                         .idleAboveMs = 8,
                         .idleMs = 300});
    return std::chrono::steady_clock::now() - begin;
  };
  EXPECT_GE(spent(9), std::chrono::milliseconds(300));
  EXPECT_LT(spent(9), std::chrono::milliseconds(600)) << "it idles once";
  EXPECT_LT(spent(8), std::chrono::milliseconds(300));
}

TEST_F(Tools, MediansOfTheHost) {
  auto host = Device::open(runtime::DeviceKind::Host);
  ASSERT_TRUE(host);
  int calls = 0;
  EXPECT_TRUE(host->median(
      [&] {
        ++calls;
        return Result<void>();
      },
      {.warmups = 3, .least = 4, .budgetMs = 1000}));
  EXPECT_EQ(calls, 4);
  EXPECT_EQ(host->driverVersion(), 0);
  EXPECT_EQ(host->name(), "host");
  EXPECT_FALSE(host->median([] { return Result<void>(Error{}); }, {}));
  EXPECT_EQ(tools::medianOf({}), 0);
  EXPECT_EQ(tools::medianOf({4}), 4);
  EXPECT_EQ(tools::medianOf({9, 1}), 5);
  EXPECT_EQ(tools::medianOf({9, 1, 2}), 2);
}

/// Work that fails ends its capture.
TEST_F(Tools, WorkThatFails) {
  auto device = open();
  ASSERT_TRUE(device) << device.error().message;
  const auto fails = [] {
    return Result<void>(Error(ErrorCode::TooManyTokens, "too many"));
  };
  for (const Error &error : {device->runCaptured(fails).takeError(),
                             device->median(fails, {}).takeError()}) {
    EXPECT_EQ(error.code, ErrorCode::TooManyTokens);
    EXPECT_EQ(error.message, "too many");
  }
  EXPECT_EQ(fakeGpu()->captured, nullptr);
  EXPECT_EQ(fakeGpu()->graphLaunches, 0);
  EXPECT_TRUE(device->runCaptured([] { return Result<void>(); }));
  EXPECT_EQ(fakeGpu()->graphLaunches, 1);
  EXPECT_THAT(fakeGpu()->waited, ElementsAre(device->stream(0)));
}

/// Each call of the driver that fails is told, and leaves nothing.
TEST_F(Tools, FailuresOfTheDriver) {
  const auto work = []() -> Result<void> {
    auto device = TRY(open());
    auto buffer = TRY(device.allocate(100));
    char bytes[100] = {};
    TRY(device.upload(buffer.data(), bytes, 100));
    TRY(device.fill(buffer.data(), 1, 100));
    TRY(device.copy(buffer.data(), buffer.data(), 100));
    TRY(device.download(bytes, buffer.data(), 100));
    TRY(device.freeBytes());
    TRY(device.runCaptured([] { return Result<void>(); }));
    TRY(device.median([] { return Result<void>(); },
                      {.warmups = 1, .least = 1, .most = 1, .eachMs = 3}));
    return device.synchronizeAll();
  };
  int call = 1;
  for (;; ++call) {
    fakeGpuFail(call);
    const Result<void> done = work();
    const char *failed = fakeGpuFailed();
    fakeGpuFail(0);
    EXPECT_STREQ(fakeGpuAlive(), "") << (failed ? failed : "");
    if (!failed) {
      EXPECT_TRUE(done) << done.error().message;
      break;
    }
    ASSERT_FALSE(done) << failed;
    EXPECT_THAT(done.error().message, HasSubstr("FAKE_ERROR (2)")) << failed;
    ASSERT_LT(call, 200);
  }
  EXPECT_GT(call, 50);
  // A context that does not become current is not popped, but released.
  fakeGpu()->pushesFail = true;
  EXPECT_FALSE(work());
}
