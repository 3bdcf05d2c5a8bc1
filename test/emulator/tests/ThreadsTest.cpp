//===- ThreadsTest.cpp - tests of lanes, warps and barriers ---------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Divergence, exchange, barriers, and the races that lock step could hide.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/tests/RunPtx.h"

using namespace moec::emulator;

using Threads = PtxTest;

/// %r20: the address of the thread's word in shared memory.
static const char *kMyShared = "mov.u32 %r21, memory; shl.b32 %r20, %tid, 2;"
                               "add.s32 %r20, %r20, %r21;";
/// %r22: that of the lane's neighbour.
static const char *kNeighbour = "xor.b32 %r22, %r20, 4;";

TEST_F(Threads, ShufflesGiveValueAndRange) {
  expectRight("shfl.sync.up.b32 %r0|%p1, %tid, 1, 0, -1;"
              "selp.b32 %r1, 100, 200, %p1; add.s32 %r0, %r0, %r1;"
              "st.global.u32 [%mine], %r0;");
  EXPECT_EQ(words[0], 200u);
  EXPECT_EQ(words[5], 104u);
}

TEST_F(Threads, HalvesMeetAtTwoShuffles) {
  // Each half of the warp has an instruction of its own; legal since sm_70.
  expectRight(R"(
setp.lt.u32 %p1, %tid, 16;
@%p1 bra low;
shfl.sync.bfly.b32 %r0, %tid, 16, 31, -1;
bra.uni done;
low: shfl.sync.bfly.b32 %r0, %tid, 16, 31, -1;
done: st.global.u32 [%mine], %r0;)");
  EXPECT_EQ(words[3], 19u);
  EXPECT_EQ(words[19], 3u);
}

TEST_F(Threads, HalvesExchangeWithMasksOfTheirOwn) {
  expectRight(R"(
setp.lt.u32 %p1, %tid, 16;
selp.b32 %r1, 0xFFFF, 0xFFFF0000, %p1;
redux.sync.add.u32 %r0, %tid, %r1;
shfl.sync.bfly.b32 %r2, %tid, 8, 31, %r1;
add.s32 %r0, %r0, %r2;
st.global.u32 [%mine], %r0;)");
  EXPECT_EQ(words[3], 120u + 11u);
  EXPECT_EQ(words[19], 376u + 27u);
}

TEST_F(Threads, SpinningLaneLetsOthersGoOn) {
  expectRight(R"(
setp.eq.u32 %p1, %tid, 0;
@!%p1 bra other;
again: ld.relaxed.gpu.global.u32 %r0, [%base+256];
setp.eq.u32 %p2, %r0, 0;
@%p2 bra again;
bra.uni done;
other: setp.eq.u32 %p3, %tid, 7;
mov.u32 %r1, 9;
@%p3 st.relaxed.gpu.global.u32 [%base+256], %r1;
mov.u32 %r0, 9;
done: st.global.u32 [%mine], %r0;)");
  EXPECT_EQ(words[0], 9u);
}

TEST_F(Threads, ALaneGoesOnWhileOthersWait) {
  // A turn may be one step, of a group that waits: that is no deadlock.
  expectRight(R"(
mov.u32 %r0, 0;
setp.ne.u32 %p1, %tid, 0;
@%p1 bra wait;
again: add.s32 %r0, %r0, 1;
setp.lt.u32 %p2, %r0, 300000;
@%p2 bra again;
wait: bar.sync 0;
st.global.u32 [%mine], %r0;)");
  EXPECT_EQ(words[0], 300000u);
}

TEST_F(Threads, BarrierDoesNotWaitForWhoHasEnded) {
  threads = 96;
  expectRight(R"(
setp.ge.u32 %p1, %tid, 64;
@%p1 ret;
bar.sync 0;
st.global.u32 [%mine], 1;)");
  EXPECT_EQ(words[63], 1u);
  EXPECT_EQ(words[64], 0u);
}

TEST_F(Threads, BarrierReductions) {
  threads = 64;
  expectRight(R"(
setp.lt.u32 %p1, %tid, 63;
bar.red.and.pred %p2, 0, %p1;
bar.red.or.pred %p3, 0, %p1;
bar.red.popc.u32 %r0, 0, %p1;
selp.b32 %r1, 1000, 0, %p2;
selp.b32 %r2, 100, 0, %p3;
add.s32 %r0, %r0, %r1;
add.s32 %r0, %r0, %r2;
st.global.u32 [%mine], %r0;)");
  EXPECT_EQ(words[40], 163u);
}

TEST_F(Threads, BarrierOfHalfAWarpHangs) {
  expectFinding(R"(
setp.lt.u32 %p1, %tid, 16;
@%p1 bar.sync 0;
@!%p1 bar.sync 1;)",
                "deadlock", "lanes 0000ffff: @%p1 bar.sync 0");
}

TEST_F(Threads, LanesThatPassByABarrierAreReported) {
  const std::string begin = "setp.lt.u32 %p1, %tid, 16; @!%p1 bra after;"
                            "bar.sync 0; after:";
  std::string work;
  for (int i = 0; i < 8; ++i)
    work += "add.s32 %r0, %tid, 1; st.global.u32 [%mine], %r0;";
  expectFinding(begin + work, "sync", "which is for all");
  // An early return is none.
  expectRight("setp.ge.u32 %p1, %tid, 16; @%p1 bra early; bar.sync 0;" + work +
              "early:");
}

TEST_F(Threads, DeadlockNamesEveryWarp) {
  threads = 64;
  expectFinding("setp.lt.u32 %p1, %tid, 32; @%p1 bar.sync 1, 64;"
                "@!%p1 bar.sync 2, 64;",
                "deadlock", "CTA 0, warp 1, lanes ffffffff");
}

TEST_F(Threads, LaneRaceNeedsSyncwarp) {
  const std::string before =
      std::string(kMyShared) + kNeighbour + "st.shared.u32 [%r20], %tid;";
  const std::string after =
      "ld.shared.u32 %r0, [%r22]; st.global.u32 [%mine], %r0;";
  expectFinding(before + after, "race",
                "read without synchronization after a write by CTA 0, warp 0");
  // A shuffle orders no memory.
  expectFinding(before + "shfl.sync.idx.b32 %r1, %tid, 0, 31, -1;" + after,
                "race", "st.shared.u32 [%r20], %tid");
  expectRight(before + "bar.warp.sync -1;" + after);
  EXPECT_EQ(words[4], 5u);
}

TEST_F(Threads, WarpRaceNeedsBarrier) {
  threads = 64;
  const std::string before = std::string(kMyShared) +
                             "xor.b32 %r22, %tid, 32; shl.b32 %r22, %r22, 2;"
                             "add.s32 %r22, %r22, %r21;"
                             "st.shared.u32 [%r20], %tid;";
  const std::string after =
      "ld.shared.u32 %r0, [%r22]; st.global.u32 [%mine], %r0;";
  expectFinding(before + after, "race", "shared address");
  expectFinding(before + "bar.warp.sync -1;" + after, "race", "shared address");
  expectRight(before + "bar.sync 0;" + after);
  EXPECT_EQ(words[4], 36u);
  // The buffer is used again: reads must have ended before.
  expectFinding(before + "bar.sync 0;" + after + "st.shared.u32 [%r20], 1;",
                "race", "st.shared.u32 [%r20], 1");
  expectRight(before + "bar.sync 0;" + after +
              "bar.sync 0; st.shared.u32 [%r20], 1;");
}

TEST_F(Threads, BytesOfOneWordDoNotRace) {
  expectRight("mov.u32 %r21, memory; add.s32 %r20, %tid, %r21;"
              "cvt.u16.u32 %h0, %tid; st.shared.u8 [%r20], %h0;"
              "ld.shared.u8 %h1, [%r20]; cvt.u32.u16 %r0, %h1;"
              "st.global.u32 [%mine], %r0;");
  EXPECT_EQ(words[31], 31u);
}

TEST_F(Threads, GlobalRaceOfCtas) {
  ctas = 2;
  const std::string write = R"(
mov.u32 %r1, %ctaid.x;
setp.ne.u32 %p1, %tid, 0;
@%p1 ret;
setp.eq.u32 %p2, %r1, 1;
@%p2 bra reader;
st.global.u32 [%base+64], 7;
)";
  const std::string read = "ld.global.u32 %r2, [%base+64]; st.global.u32 "
                           "[%base], %r2; ret;\n";
  expectFinding(write +
                    "st.relaxed.gpu.global.u32 [%base+128], 1; ret;"
                    "reader: ld.acquire.gpu.global.u32 %r3, [%base+128];"
                    "setp.eq.u32 %p3, %r3, 0; @%p3 bra reader;" +
                    read,
                "race", "global address");
  expectRight(write +
              "st.release.gpu.global.u32 [%base+128], 1; ret;"
              "reader: ld.acquire.gpu.global.u32 %r3, [%base+128];"
              "setp.eq.u32 %p3, %r3, 0; @%p3 bra reader;" +
              read);
  EXPECT_EQ(words[0], 7u);
  words.assign(words.size(), 0);
  // Fences around relaxed accesses do the same.
  expectRight(write +
              "fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [%base+128], 1;"
              "ret; reader: ld.relaxed.gpu.global.u32 %r3, [%base+128];"
              "setp.eq.u32 %p3, %r3, 0; @%p3 bra reader; fence.acq_rel.gpu;" +
              read);
}

TEST_F(Threads, FlagInAVectorIsAcquired) {
  ctas = 2;
  expectRight(R"(
mov.u32 %r1, %ctaid.x;
setp.ne.u32 %p1, %tid, 0;
@%p1 ret;
setp.eq.u32 %p2, %r1, 1;
@%p2 bra reader;
st.global.u32 [%base+64], 7;
red.release.gpu.global.add.s32 [%base+268], 1;
ret;
reader: ld.relaxed.gpu.global.v4.b32 {_, _, _, %r3}, [%base+256];
setp.eq.u32 %p3, %r3, 0;
@%p3 bra reader;
fence.acq_rel.gpu;
ld.global.u32 %r2, [%base+64];
st.global.u32 [%base], %r2;)");
  EXPECT_EQ(words[0], 7u);
}

TEST_F(Threads, HangIsReported) {
  settings.spinLimit = 100'000;
  expectFinding("again: ld.relaxed.gpu.global.u32 %r0, [%base];"
                "setp.eq.u32 %p1, %r0, 0; @%p1 bra again;",
                "hang", "CTA 0, warp 0, lanes ffffffff");
}

TEST_F(Threads, ALoopThatGoesOnAfterAFaultIsEnded) {
  // Each turn has an effect, so that it does not count as spinning.
  settings.faultLimit = 100'000;
  const std::string loop = "mov.u32 %r0, 0; again: st.global.u32 [%mine], %r0;"
                           "add.s32 %r0, %r0, 1; setp.lt.u32 %p1, %r0, ";
  const std::string fault = "st.global.u32 [%base+4096], 1;";
  expectFinding(fault + loop + "0x7fffffff; @%p1 bra again;", "hang",
                "this goes on after a fault:");
  // Without a fault, and in the launch after one, a loop may be as long.
  expectFinding(fault, "bounds", "which is in no allocation");
  expectRight(loop + "100000; @%p1 bra again;");
  EXPECT_EQ(words[0], 99'999u);
}

TEST_F(Threads, UndefinedValuesAreReportedWhereTheyMatter) {
  const std::string load = "mov.u32 %r21, memory; ld.shared.u32 %r0, [%r21];";
  // To load, to add and to drop is harmless.
  expectRight(load + "add.s32 %r0, %r0, 1;");
  expectFinding(load + "setp.eq.u32 %p1, %r0, 0; @%p1 ret;", "undefined",
                "the guard depends on a value that nothing wrote");
  expectFinding(load + "ld.shared.u32 %r1, [%r0];", "undefined",
                "the address depends");
  expectFinding("add.s32 %r1, %r2, 1; setp.eq.u32 %p1, %r1, 0; @%p1 ret;",
                "undefined", "the guard");
  expectRight("setp.eq.u32 %p0, %tid, 0; @%p0 st.shared.u32 [memory], 4;"
              "bar.warp.sync -1;" +
              load + "setp.eq.u32 %p1, %r0, 0; @%p1 ret;");
}

TEST_F(Threads, BoundsAndAlignment) {
  expectFinding("st.global.u32 [%base+4096], 1;", "bounds",
                "which is in no allocation");
  expectFinding("st.global.u32 [%base+2], 1;", "alignment", "4 bytes at");
  shared = 64;
  expectFinding("mov.u32 %r0, memory; st.shared.u32 [%r0+64], 1;", "bounds",
                "write of 4 bytes at shared address");
  // Shared memory is aligned as declared, and no better.
  shared = 1024;
  threads = 1;
  expectRight("mov.u32 %r0, memory; and.b32 %r0, %r0, 255;"
              "st.global.u32 [%base], %r0;");
  EXPECT_EQ(words[0], 128u);
}

TEST_F(Threads, VectorsOf32Bytes) {
  target = "sm_100a";
  for (uint32_t i = 0; i < words.size(); ++i)
    words[i] = i;
  const std::string begin =
      "add.s64 %d0, %base, 31; and.b64 %d0, %d0, -32; setp.eq.u32 %p1, %tid, 0;"
      "@%p1 ld.global.nc.v8.u32 {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, "
      "[%d0];";
  expectRight(begin + "@%p1 st.global.v8.u32 [%d0+64], {%r0, %r1, %r2, %r3, "
                      "%r4, %r5, %r6, %r7};");
  const auto first = uint32_t(-reinterpret_cast<uint64_t>(words.data()) % 32 /
                              sizeof(uint32_t));
  for (uint32_t i = 0; i < 8; ++i)
    EXPECT_EQ(words[first + 16 + i], first + i);
  expectFinding("add.s64 %d0, %base, 31; and.b64 %d0, %d0, -32;"
                "ld.global.v8.f32 {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}, "
                "[%d0+16];",
                "alignment", "32 bytes at");
  EXPECT_THAT(refusal("ld.shared.v8.u32 {%r0, %r1, %r2, %r3, %r4, %r5, %r6, "
                      "%r7}, [%r8];"),
              testing::HasSubstr("a vector of this type and size"));
}
