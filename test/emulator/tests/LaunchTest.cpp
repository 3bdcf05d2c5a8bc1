//===- LaunchTest.cpp - tests of programmatic launches --------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The rules of programmatic dependent launch, whether or not kernels meet.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/tests/RunPtx.h"

using namespace moec::emulator;

namespace {
class Launches : public PtxTest {
protected:
  /// Runs kernels one after the other, all but the first programmatic.
  void runAll(Timing timing, const std::vector<std::string> &bodies) {
    settings.timing = timing;
    words.assign(1024, 0);
    device = std::make_unique<Device>(settings);
    device->addRegion(reinterpret_cast<uint64_t>(words.data()),
                      words.size() * 4, /*isDefined=*/true);
    for (size_t i = 0; i < bodies.size(); ++i)
      launch(bodies[i], i > 0);
    device->synchronize();
  }

  void expectAll(const std::vector<std::string> &bodies) {
    for (Timing timing : {Timing::AtOnce, Timing::Late, Timing::Random}) {
      runAll(timing, bodies);
      EXPECT_EQ(findings(), "");
    }
  }

  void expectKind(const std::vector<std::string> &bodies,
                  const std::string &kind) {
    for (Timing timing : {Timing::AtOnce, Timing::Late, Timing::Random}) {
      runAll(timing, bodies);
      EXPECT_TRUE(device->hasFinding(kind)) << findings();
    }
  }
};
} // namespace

static const std::string kWait = "griddepcontrol.wait;";
static const std::string kTrigger = "griddepcontrol.launch_dependents;";
static const std::string kWrite = "st.global.u32 [%mine], 7;";
static const std::string kRead =
    "ld.global.u32 %r0, [%mine]; st.global.u32 [%mine+512], %r0;";

TEST_F(Launches, SuccessorAwaitsItsPredecessor) {
  expectAll({kTrigger + kWrite, kWait + kRead});
  EXPECT_EQ(words[128 + 31], 7u);
  expectKind({kTrigger + kWrite, kRead + kWait}, "race");
  expectKind({kTrigger + kWrite, kRead}, "launch");
}

TEST_F(Launches, TriggerAfterTheWaitTellsOfAllBefore) {
  // The second kernel lets the third begin once the first has ended.
  expectAll({kWrite, kWait + kTrigger, kRead + kWait});
  EXPECT_EQ(words[128 + 31], 7u);
  // A trigger before the wait promises nothing.
  expectKind({kTrigger + kWrite, kTrigger + kWait, kRead + kWait}, "race");
}

TEST_F(Launches, LateSuccessorsGoFirst) {
  // The successor writes before its predecessor reads: values are wrong, too.
  runAll(Timing::Late, {kTrigger + kRead, kWrite + kWait});
  EXPECT_TRUE(device->hasFinding("race")) << findings();
  runAll(Timing::AtOnce, {kTrigger + kRead, kWrite + kWait});
  EXPECT_TRUE(device->hasFinding("race")) << findings();
  EXPECT_EQ(words[128], 0u);
}

TEST_F(Launches, ClustersReachEachOther) {
  ctas = cluster = 2;
  const std::string begin =
      "mov.u32 %r1, %cluster_ctarank; xor.b32 %r2, %r1, 1;"
      "mov.u32 %r20, memory;"
      "shl.b32 %r21, %tid, 2; add.s32 %r20, %r20, %r21;"
      "mapa.shared::cluster.u32 %r22, %r20, %r2;"
      "add.s32 %r3, %tid, %r1; st.shared.u32 [%r20], %r3;";
  const std::string read =
      "ld.shared::cluster.u32 %r4, [%r22]; shl.b32 %r5, %r1, 7;"
      "cvt.u64.u32 %d0, %r5; add.s64 %d0, %d0, %mine;"
      "st.global.u32 [%d0], %r4;";
  const std::string sync = "barrier.cluster.arrive.release.aligned;"
                           "barrier.cluster.wait.acquire.aligned;";
  expectRight(begin + sync + read + sync);
  EXPECT_EQ(words[5], 6u);
  EXPECT_EQ(words[32 + 5], 5u);
  // Without the second barrier, a CTA may read memory of one that has ended.
  settings.timing = Timing::Late;
  EXPECT_FALSE(run(begin + read + sync));
  EXPECT_TRUE(device->hasFinding("race")) << findings();
}
