//===- StreamWatchTest.cpp - how long streams make no progress ------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/StreamWatch.h"
#include "test/runtime/cuda/CudaTesting.h"

#include <thread>

using namespace moec;
using namespace moec::comm;
using namespace moec::runtime;
using namespace moec::test;
using std::chrono::milliseconds;

namespace {

class Watch : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_EQ(kDriverIsSet, 0);
    *fakeGpu() = {};
    fakeGpu()->streamsWait = true;
    auto found = CudaPlace::find(0);
    ASSERT_TRUE(found) << found.error().message;
    place = *found;
    auto made = StreamWatch::create(place);
    ASSERT_TRUE(made) << made.error().message;
    watch = std::move(*made);
  }
  void TearDown() override {
    fakeGpu()->streamsWait = false;
    watch.reset();
    place.driver->primaryCtxRelease(place.device);
  }
  void add() { EXPECT_TRUE(watch->add(nullptr)); }
  static void pause() { std::this_thread::sleep_for(kPause); }

  /// Expects a wait that is no longer than the time since `begin`.
  void expectSince(std::chrono::steady_clock::time_point begin) {
    const milliseconds waited = watch->waiting();
    EXPECT_LE(waited, std::chrono::steady_clock::now() - begin);
  }

  static constexpr milliseconds kPause{200};
  CudaPlace place;
  std::unique_ptr<StreamWatch> watch;
};

} // namespace

/// A queued launch does not wait for other ranks until it starts.
TEST_F(Watch, AWaitBeginsWithTheLastProgress) {
  add();
  add();
  pause();
  EXPECT_GE(watch->waiting(), kPause);
  const auto progress = std::chrono::steady_clock::now();
  fakeGpu()->eventsEnded = 1;
  expectSince(progress);
  pause();
  EXPECT_GE(watch->waiting(), kPause);
  fakeGpu()->eventsEnded = 2;
  EXPECT_EQ(watch->waiting(), milliseconds(0));
}

TEST_F(Watch, AWaitBeginsWithItsLaunch) {
  EXPECT_EQ(fakeGpu()->eventFlags, std::set<unsigned>{cuda::kEventNoTiming});
  EXPECT_EQ(watch->waiting(), milliseconds(0));
  add();
  fakeGpu()->eventsEnded = 1;
  EXPECT_EQ(watch->waiting(), milliseconds(0));
  pause();
  const auto launch = std::chrono::steady_clock::now();
  add();
  expectSince(launch);
}

/// If launches outnumber events, the last event moves and the first one stays.
TEST_F(Watch, TheOldestIsNotForgotten) {
  add();
  pause();
  for (int i = 0; i < 100; ++i)
    add();
  EXPECT_GE(watch->waiting(), kPause);
  const auto progress = std::chrono::steady_clock::now();
  fakeGpu()->eventsEnded = 100;
  expectSince(progress);
  pause();
  EXPECT_GE(watch->waiting(), kPause);
  fakeGpu()->eventsEnded = 101;
  EXPECT_EQ(watch->waiting(), milliseconds(0));
}
