//===- AsyncTest.cpp - tests of asynchronous copies and mbarriers ---------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// cp.async, mbarriers and bulk copies: right uses, and each fault.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/core/TensorMap.h"
#include "test/emulator/tests/RunPtx.h"

using namespace moec::emulator;

namespace {
class Async : public PtxTest {
protected:
  Async() {
    for (uint32_t i = 0; i < words.size(); ++i)
      words[i] = i;
  }
};
} // namespace

/// The mbarrier at %r10 with `count` arrivals, made by thread 0.
static std::string mbarrier(const char *count) {
  return std::string("mov.u32 %r10, memory; setp.eq.u32 %p0, %tid, 0;"
                     "@%p0 mbarrier.init.shared::cta.b64 [%r10], ") +
         count + "; bar.sync 0; add.s32 %r11, %r10, 128;";
}
static const char *kWait =
    "again: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r10], 0;"
    "@!%p1 bra again;";
static const char *kBulk =
    "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r10], 256;"
    "@%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
    "[%r11], [%base], 256, [%r10];";
static const char *kReadBack =
    "shl.b32 %r12, %tid, 2; add.s32 %r12, %r12, %r11;"
    "ld.shared.u32 %r0, [%r12]; st.global.u32 [%mine+512], %r0;";

TEST_F(Async, CopiesOfThreads) {
  const std::string copy =
      "mov.u32 %r11, memory; shl.b32 %r12, %tid, 2; add.s32 %r12, %r12, %r11;"
      "cp.async.ca.shared.global [%r12], [%mine], 4; cp.async.commit_group;";
  const std::string use =
      "ld.shared.u32 %r0, [%r12]; st.global.u32 [%mine+512], %r0;";
  expectRight(copy + "cp.async.wait_group 0;" + use);
  EXPECT_EQ(words[128 + 9], 9u);
  expectFinding(copy + use, "race", "a cp.async that was not awaited");
  expectFinding(copy + "cp.async.wait_group 1;" + use, "race",
                "a cp.async that was not awaited");
  // The neighbour's bytes need a barrier, too.
  expectFinding(copy + "cp.async.wait_group 0; xor.b32 %r12, %r12, 4;" + use,
                "race", "read without synchronization");
}

TEST_F(Async, CopyFillsWithZeros) {
  expectRight("mov.u32 %r11, memory; shl.b32 %r12, %tid, 4;"
              "add.s32 %r12, %r12, %r11; mov.u32 %r3, 4;"
              "cp.async.cg.shared.global [%r12], [%base+16], 16, %r3;"
              "cp.async.wait_all; ld.shared.v2.u32 {%r0, %r1}, [%r12];"
              "add.s32 %r0, %r0, %r1; st.global.u32 [%mine+512], %r0;");
  EXPECT_EQ(words[128], 4u);
}

TEST_F(Async, CopyArrivesAtMbarrier) {
  const std::string begin = mbarrier("32") +
                            "shl.b32 %r12, %tid, 2; add.s32 %r12, %r12, %r11;"
                            "cp.async.ca.shared.global [%r12], [%mine], 4;";
  const std::string end = std::string(kWait) +
                          "xor.b32 %r12, %r12, 4;"
                          "ld.shared.u32 %r0, [%r12];"
                          "st.global.u32 [%mine+512], %r0;";
  expectRight(begin + "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r10];" +
              end);
  EXPECT_EQ(words[128], 1u);
  // Without .noinc the barrier expects one arrival more of each lane.
  expectFinding(begin + "cp.async.mbarrier.arrive.shared::cta.b64 [%r10];" +
                    end,
                "deadlock", "mbarrier.try_wait");
  expectRight(begin +
              "cp.async.mbarrier.arrive.shared::cta.b64 [%r10];"
              "mbarrier.arrive.shared::cta.b64 _, [%r10];" +
              end);
}

TEST_F(Async, LanesArriveOneAfterTheOther) {
  // The copies of all lanes are one instruction; a later wait for them must not
  // hide that the arrivals hand them on.
  expectRight(mbarrier("32") +
              "shl.b32 %r12, %tid, 2; add.s32 %r12, %r12, %r11;"
              "cp.async.ca.shared.global [%r12], [%mine], 4;"
              "setp.lt.u32 %p1, %tid, 2;"
              "@%p1 bra few;"
              "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r10];"
              "bra.uni joined;"
              "few: cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r10];"
              "joined: cp.async.commit_group; cp.async.wait_group 0;" +
              kWait +
              "xor.b32 %r12, %r12, 4;"
              "ld.shared.u32 %r0, [%r12];"
              "st.global.u32 [%mine+512], %r0;");
  EXPECT_EQ(words[128], 1u);
}

TEST_F(Async, BulkCopies) {
  expectRight(mbarrier("1") + kBulk + kWait + kReadBack);
  EXPECT_EQ(words[128 + 31], 31u);
  expectFinding(mbarrier("1") + kBulk + kReadBack, "race",
                "after a write by the asynchronous proxy");
  // Bytes that were not announced never complete the phase.
  expectFinding(mbarrier("1") +
                    "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r10], "
                    "512;"
                    "@%p0 cp.async.bulk.shared::cluster.global.mbarrier::"
                    "complete_tx::bytes [%r11], [%base], 256, [%r10];" +
                    kWait,
                "deadlock", "mbarrier.try_wait");
  expectFinding(mbarrier("1") +
                    "@%p0 cp.async.bulk.shared::cluster.global.mbarrier::"
                    "complete_tx::bytes [%r11], [%base+8], 256, [%r10];",
                "alignment", "256 bytes at");
}

TEST_F(Async, GenericWriteNeedsProxyFence) {
  const std::string write = mbarrier("1") +
                            "shl.b32 %r12, %tid, 2; add.s32 %r12, %r12, %r11;"
                            "st.shared.u32 [%r12], 5;";
  const std::string end = std::string(kWait) + "ld.shared.u32 %r0, [%r12];";
  expectFinding(write + "bar.sync 0;" + kBulk + end, "proxy",
                "without a fence.proxy.async");
  expectRight(write + "fence.proxy.async.shared::cta; bar.sync 0;" + kBulk +
              end);
}

TEST_F(Async, StoresReadSharedMemoryUntilAwaited) {
  const std::string begin =
      "mov.u32 %r11, memory; shl.b32 %r12, %tid, 2; add.s32 %r12, %r12, %r11;"
      "st.shared.u32 [%r12], %tid; fence.proxy.async.shared::cta; bar.sync 0;"
      "setp.eq.u32 %p0, %tid, 0;"
      "@%p0 cp.async.bulk.global.shared::cta.bulk_group [%base+512], [%r11], "
      "128; @%p0 cp.async.bulk.commit_group;";
  expectRight(begin + "@%p0 cp.async.bulk.wait_group 0;");
  EXPECT_EQ(words[128 + 31], 31u);
  expectFinding(begin, "async", "the CTA ended before this store");
}

TEST_F(Async, MbarrierCounts) {
  expectRight(mbarrier("64") + "mbarrier.arrive.shared::cta.b64 _, [%r10], 2;" +
              kWait);
  expectFinding(mbarrier("31") + "mbarrier.arrive.shared::cta.b64 _, [%r10];"
                                 "mbarrier.arrive.shared::cta.b64 _, [%r10], "
                                 "31;",
                "mbarrier", "arrivals where");
  expectFinding("mov.u32 %r10, memory;"
                "mbarrier.arrive.shared::cta.b64 _, [%r10];",
                "mbarrier", "no mbarrier was initialized");
  expectFinding(mbarrier("1") + "@%p0 mbarrier.init.shared::cta.b64 [%r10], 1;",
                "mbarrier", "an mbarrier lives at this address");
  expectFinding(mbarrier("2") +
                    "@%p0 mbarrier.arrive.shared::cta.b64 _, [%r10];" + kWait,
                "deadlock", "mbarrier.try_wait");
}

TEST_F(Async, MbarrierByState) {
  expectRight(mbarrier("32") +
              "mbarrier.arrive.shared::cta.b64 %d1, [%r10];"
              "again: mbarrier.test_wait.shared::cta.b64 %p1, [%r10], %d1;"
              "@!%p1 bra again; st.global.u32 [%mine], 3;");
  EXPECT_EQ(words[31], 3u);
}

TEST_F(Async, ArrivalOfOneLaneDoesNotReleaseItsNeighbours) {
  threads = 64;
  const std::string begin = mbarrier("1") +
                            "shl.b32 %r12, %tid, 2; add.s32 %r12, %r12, %r11;"
                            "setp.lt.u32 %p2, %tid, 32; @!%p2 bra consumer;"
                            "st.shared.u32 [%r12], %tid;";
  const std::string end =
      "@%p0 mbarrier.arrive.shared::cta.b64 _, [%r10]; ret; consumer:" +
      std::string(kWait) +
      "ld.shared.u32 %r0, [%r12+-128];"
      "st.global.u32 [%mine], %r0;";
  expectFinding(begin + end, "race", "read without synchronization");
  expectRight(begin + "bar.warp.sync -1;" + end);
  EXPECT_EQ(words[40], 8u);
}

TEST(TensorMaps, RefusesWhatTheDriverRefuses) {
  uint64_t extents[] = {64, 32}, strides[] = {128};
  uint32_t box[] = {64, 8}, steps[] = {1, 1};
  TensorMapRequest right{9,     2, 0x1000, extents, strides, box,
                         steps, 0, 3,      0,       0};
  TensorMap map;
  EXPECT_EQ(encodeTensorMap(right, map), "");
  EXPECT_EQ(map.rowBytes(), 128u);
  auto refused = [&](auto change) {
    TensorMapRequest request = right;
    change(request);
    return encodeTensorMap(request, map);
  };
  EXPECT_EQ(refused([](auto &one) { one.address = 0x1008; }),
            "address 0x1008 is no multiple of 16");
  EXPECT_EQ(refused([](auto &one) { one.swizzle = 2; }),
            "rows of the box have 128 bytes, at most 64 fit the swizzle");
  const uint32_t tall[] = {64, 257}, narrow[] = {4, 8};
  EXPECT_EQ(refused([&](auto &one) { one.box = tall; }),
            "box extent 1 is 257, expected 1 to 256");
  EXPECT_EQ(refused([&](auto &one) { one.box = narrow; }),
            "rows of the box have 8 bytes, expected a multiple of 16");
  const uint64_t odd[] = {130};
  EXPECT_EQ(refused([&](auto &one) { one.strides = odd; }),
            "stride 1 is 130 bytes, expected a multiple of 16 below 2^40");
}

TEST(TensorMaps, SwizzlesArePermutationsOfChunks) {
  for (Swizzle swizzle :
       {Swizzle::Bytes32, Swizzle::Bytes64, Swizzle::Bytes128}) {
    const uint32_t row = 16u << unsigned(swizzle);
    for (uint32_t offset = 0; offset < 1024; offset += 16) {
      const uint32_t place = swizzled(offset, swizzle);
      // The chunk in its row is xored with the row's number, as the manual
      // draws it; 128 bytes are a line, whatever the row.
      const uint32_t line = offset / 128, chunks = row / 16;
      EXPECT_EQ(place,
                offset / row * row + (offset % row / 16 ^ line % chunks) * 16);
    }
  }
}
