//===- RanksTest.cpp - tests of GPUs that reach each other ----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A flag in the memory of GPU 0 hands a value to GPU 1, with the scopes that
// order it and with those that do not.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/tests/RunPtx.h"

using namespace moec::emulator;

namespace {

class Ranks : public PtxTest {
protected:
  Ranks() { settings.numGpus = 2; }

  /// Makes the device with `words` in the memory of GPU 0.
  void open() {
    device = std::make_unique<Device>(settings);
    device->addRegion(reinterpret_cast<uint64_t>(words.data()),
                      words.size() * 4, wordsAreDefined);
    device->enablePeer(1, 0);
  }

  /// Runs `writes` on GPU 0 and `reads` on GPU 1, in all timings.
  void exchange(const std::string &writes, const std::string &reads,
                bool isRight) {
    threads = 1;
    const auto begin = words;
    for (Timing timing : {Timing::AtOnce, Timing::Late, Timing::Random}) {
      settings.timing = timing;
      words = begin;
      open();
      launch(writes, /*programmatic=*/false, /*gpu=*/0);
      launch(reads, /*programmatic=*/false, /*gpu=*/1);
      EXPECT_EQ(device->synchronize(), isRight) << findings();
      EXPECT_EQ(device->hasFinding("race"), !isRight) << findings();
      EXPECT_EQ(words[2], 7u);
    }
    words = begin;
  }
};

/// Word 0 is the value, 64 the flag.
std::string writeThen(const std::string &tell) {
  return "mov.u32 %r0, 7; mov.u32 %r1, 1; st.global.u32 [%base], %r0;" + tell;
}
std::string waitThenRead(const std::string &load, const std::string &then) {
  return "again: " + load +
         " %r0, [%base+256]; setp.eq.u32 %p1, %r0, 0; @%p1 bra again;" + then +
         "ld.global.u32 %r1, [%base]; st.global.u32 [%base+8], %r1;";
}

const char *kRelease = "st.release.sys.global.u32 [%base+256], %r1;";
const char *kAcquire = "ld.acquire.sys.global.u32";

TEST_F(Ranks, AReleaseOfTheSystemReachesAnotherGpu) {
  exchange(writeThen(kRelease), waitThenRead(kAcquire, ""), true);
  exchange(writeThen("fence.acq_rel.sys;"
                     "st.relaxed.sys.global.u32 [%base+256], %r1;"),
           waitThenRead("ld.relaxed.sys.global.u32", "fence.acq_rel.sys;"),
           true);
  exchange(writeThen("membar.sys; st.volatile.global.u32 [%base+256], %r1;"),
           waitThenRead("ld.volatile.global.u32", "membar.sys;"), true);
  exchange(writeThen("red.release.sys.global.add.u32 [%base+256], %r1;"),
           waitThenRead(kAcquire, ""), true);
}

TEST_F(Ranks, TheScopeOfAGpuDoesNot) {
  exchange(writeThen("st.release.gpu.global.u32 [%base+256], %r1;"),
           waitThenRead(kAcquire, ""), false);
  exchange(writeThen(kRelease), waitThenRead("ld.acquire.gpu.global.u32", ""),
           false);
  exchange(writeThen("membar.gl; st.relaxed.sys.global.u32 [%base+256], %r1;"),
           waitThenRead(kAcquire, ""), false);
  exchange(writeThen(kRelease),
           waitThenRead("ld.relaxed.sys.global.u32", "fence.acq_rel.gpu;"),
           false);
  EXPECT_THAT(findings(), testing::HasSubstr(", GPU 1, CTA 0"));
  EXPECT_THAT(findings(), testing::HasSubstr("lane 0 of GPU 0 at"));
}

TEST_F(Ranks, ALaterKernelKnowsWhatItsPredecessorsLearned) {
  const std::string wait = "again: ld.acquire.sys.global.u32 %r0, [%base+256];"
                           "setp.eq.u32 %p1, %r0, 0; @%p1 bra again;";
  const std::string read = "ld.global.u32 %r1, [%base];"
                           "st.global.u32 [%base+8], %r1;";
  threads = 1;
  for (bool waits : {true, false})
    for (bool programmatic : {false, true}) {
      const auto begin = words;
      open();
      launch(wait, false, 1);
      launch((programmatic && waits ? "griddepcontrol.wait;" : "") + read,
             programmatic && waits, 1);
      launch(writeThen(kRelease), false, 0);
      if (!waits) {
        // A stream of its own has no order after the kernel that waited.
        open();
        launch(writeThen(kRelease), false, 0);
        launch(wait, false, 1);
        launch(read, false, 1 + kMaxGpus);
      }
      EXPECT_EQ(device->synchronize(), waits) << findings();
      words = begin;
    }
}

TEST_F(Ranks, WhatTheHostAwaitedComesBefore) {
  threads = 1;
  const std::string read = "ld.global.u32 %r1, [%base];"
                           "st.global.u32 [%base+8], %r1;";
  for (bool waits : {true, false}) {
    open();
    launch(writeThen(""), false, 0);
    EXPECT_TRUE(device->synchronize());
    if (waits)
      device->noteAwaited(0);
    launch(read, false, 1);
    EXPECT_EQ(device->synchronize(), waits) << findings();
  }
}

TEST_F(Ranks, MemoryOfAnotherGpuNeedsPeerAccess) {
  threads = 1;
  device = std::make_unique<Device>(settings);
  device->addRegion(reinterpret_cast<uint64_t>(words.data()), words.size() * 4,
                    wordsAreDefined);
  launch("ld.global.u32 %r1, [%base];", false, 1);
  EXPECT_FALSE(device->synchronize());
  EXPECT_THAT(findings(), testing::HasSubstr("which is memory of GPU 0"));
}

} // namespace
