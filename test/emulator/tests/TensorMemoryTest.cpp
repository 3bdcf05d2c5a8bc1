//===- TensorMemoryTest.cpp - tests of tensor memory ----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Allocation, loads and stores, and their order between warps.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/tests/RunPtx.h"

#include <functional>

using namespace moec::emulator;

namespace {
class TensorColumnsTest : public PtxTest {
protected:
  TensorColumnsTest() { target = "sm_100a"; }
};

/// A place in tensor memory.
struct Place {
  int lane, column;
};
} // namespace

/// Warp 0 (%p7) allocates; the address is in %r31.
static std::string allocate(int columns) {
  return "mov.u32 %r30, memory; setp.lt.u32 %p7, %tid, 32;"
         "@%p7 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 "
         "[%r30], " +
         std::to_string(columns) + "; bar.sync 0; ld.shared.u32 %r31, [%r30];";
}

static std::string release(int columns) {
  return "bar.sync 0;"
         "@%p7 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r31, " +
         std::to_string(columns) + ";";
}

/// "{%v0, %v1}".
static std::string list(const std::string &name, int count) {
  std::string text = "{";
  for (int i = 0; i < count; ++i)
    text += (i ? ", %" : "%") + name + std::to_string(i);
  return text + "}";
}

static const std::string kBefore = "tcgen05.fence::before_thread_sync;",
                         kAfter = "tcgen05.fence::after_thread_sync;",
                         kWaitLoad = "tcgen05.wait::ld.sync.aligned;",
                         kWaitStore = "tcgen05.wait::st.sync.aligned;",
                         kStore = "tcgen05.st.sync.aligned.32x32b.x1.b32 "
                                  "[%r31], {%tid};",
                         kLoad = "tcgen05.ld.sync.aligned.32x32b.x1.b32 "
                                 "{%r1}, [%r31];",
                         kGive = "st.global.u32 [%mine], %r1;";

TEST_F(TensorColumnsTest, StoresAndLoads) {
  expectRight(allocate(32) + kStore + kWaitStore + kLoad + kWaitLoad + kGive +
              release(32));
  for (uint32_t i = 0; i < 32; ++i)
    EXPECT_EQ(words[i], i);
}

TEST_F(TensorColumnsTest, GenericAddresses) {
  expectRight("mov.u32 %r30, memory; cvt.u64.u32 %d1, %r30;"
              "cvta.shared.u64 %d1, %d1; setp.lt.u32 %p7, %tid, 32;"
              "setp.eq.u32 %p6, %tid, 0; add.s64 %d2, %d1, 16;"
              "@%p6 mbarrier.init.b64 [%d2], 1;"
              "tcgen05.alloc.cta_group::1.sync.aligned.b32 [%d1], 32;"
              "bar.sync 0; ld.shared.u32 %r31, [%r30];" +
              kStore + kWaitStore +
              "@%p6 tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 "
              "[%d2];"
              "wait: mbarrier.try_wait.parity.b64 %p1, [%d2], 0;"
              "@!%p1 bra wait;" +
              kLoad + kWaitLoad + kGive + release(32));
  EXPECT_EQ(words[31], 31u);
}

/// Place (lane of the quarter, column) of each register, as the manual's
/// figures draw it, by thread and register.
static std::vector<std::vector<Place>> fragments(const std::string &shape,
                                                 int count, int split) {
  std::vector<std::vector<Place>> of(32);
  for (int repeat = 0; repeat < count; ++repeat)
    if (shape == "32x32b") {
      for (int thread = 0; thread < 32; ++thread)
        of[size_t(thread)].push_back({thread, repeat});
    } else if (shape == "16x32bx2") {
      for (int thread = 0; thread < 16; ++thread) {
        of[size_t(thread)].push_back({thread, repeat});
        of[size_t(thread) + 16].push_back({thread, repeat + split});
      }
    } else if (shape == "16x64b") {
      for (int row = 0; row < 8; ++row) {
        of[size_t(4 * row)].push_back({row, 2 * repeat});
        of[size_t(4 * row + 1)].push_back({row + 8, 2 * repeat});
        of[size_t(4 * row + 2)].push_back({row, 2 * repeat + 1});
        of[size_t(4 * row + 3)].push_back({row + 8, 2 * repeat + 1});
      }
    } else if (shape == "16x128b") {
      for (int half = 0; half < 2; ++half)
        for (int row = 0; row < 8; ++row)
          for (int column = 0; column < 4; ++column)
            of[size_t(4 * row + column)].push_back(
                {row + 8 * half, 4 * repeat + column});
    } else {
      for (int half = 0; half < 2; ++half)
        for (int row = 0; row < 8; ++row)
          for (int pair = 0; pair < 4; ++pair)
            for (int i = 0; i < 2; ++i)
              of[size_t(4 * row + pair)].push_back(
                  {row + 8 * half, 8 * repeat + 2 * pair + i});
    }
  return of;
}

/// Stores lane << 16 | column to all of 64 columns.
static std::string fill() {
  std::string text = ".reg .b32 %v<64>; shl.b32 %v0, %tid, 16;";
  for (int i = 1; i < 64; ++i)
    text +=
        "add.s32 %v" + std::to_string(i) + ", %v0, " + std::to_string(i) + ";";
  return text + "tcgen05.st.sync.aligned.32x32b.x64.b32 [%r31], " +
         list("v", 64) + ";" + kWaitStore;
}

/// Gives registers `name` of each thread, 64 words a thread.
static std::string give(const std::string &name, int count) {
  std::string text = "mul.wide.u32 %d0, %tid, 256; add.s64 %d0, %d0, %base;";
  for (int i = 0; i < count; ++i)
    text += "st.global.u32 [%d0+" + std::to_string(4 * i) + "], %" + name +
            std::to_string(i) + ";";
  return text;
}

TEST_F(TensorColumnsTest, ShapesOfLoadsAndStores) {
  threads = 128;
  struct Case {
    const char *shape;
    int count, split, half;
    bool packed;
  };
  for (const Case &one : {Case{"32x32b", 1, 0, 0, false},
                          {"32x32b", 32, 0, 0, false},
                          {"32x32b", 8, 0, 0, true},
                          {"16x32bx2", 4, 9, 0, false},
                          {"16x32bx2", 2, 16, 16, true},
                          {"16x64b", 4, 0, 0, false},
                          {"16x64b", 2, 0, 16, true},
                          {"16x128b", 2, 0, 16, false},
                          {"16x128b", 1, 0, 0, true},
                          {"16x256b", 1, 0, 0, false},
                          {"16x256b", 4, 0, 16, false},
                          {"16x256b", 2, 0, 0, true}}) {
    const auto places = fragments(one.shape, one.count, 0);
    const int registers = int(places[0].size());
    const std::string name = std::string(".sync.aligned.") + one.shape + ".x" +
                             std::to_string(one.count);
    const std::string split = std::string(one.shape) == "16x32bx2"
                                  ? ", " + std::to_string(one.split)
                                  : "";
    // The lane of the warp, and 16 more where the second half is meant.
    const std::string address =
        "and.b32 %r1, %tid, 0x60; shl.b32 %r1, %r1, 16; add.s32 %r2, %r31, "
        "%r1; add.s32 %r2, %r2, " +
        std::to_string(one.half << 16) + ";";
    const int width = one.packed ? 2 : 1;
    auto placeOf = [&](int thread, int reg) {
      Place place = places[size_t(thread % 32)][size_t(reg)];
      place.lane += thread / 32 * 32 + one.half;
      place.column *= width;
      if (one.split && thread % 32 >= 16)
        place.column += one.split;
      return place;
    };
    words.assign(128 * 64, 0);
    expectRight(allocate(64) + fill() + address + ".reg .b32 %w<64>;" +
                "tcgen05.ld" + name + (one.packed ? ".pack::16b" : "") +
                ".b32 " + list("w", registers) + ", [%r2]" + split + ";" +
                kWaitLoad + give("w", registers) + release(64));
    for (int thread = 0; thread < 128; ++thread)
      for (int reg = 0; reg < registers; ++reg) {
        const Place at = placeOf(thread, reg);
        const int low = at.lane << 16 | at.column;
        const int expected =
            one.packed ? (low & 0xFFFF) | ((low + 1) & 0xFFFF) << 16 : low;
        EXPECT_EQ(int(words[size_t(thread * 64 + reg)]), expected)
            << name << ", thread " << thread << ", register " << reg;
      }

    // Stores of thread << 16 | register over what fill() wrote.
    std::string values = ".reg .b32 %w<64>; shl.b32 %w0, %tid, 16;";
    for (int i = 1; i < registers; ++i)
      values += "add.s32 %w" + std::to_string(i) + ", %w0, " +
                std::to_string(i) + ";";
    expectRight(allocate(64) + fill() + address + values + "tcgen05.st" + name +
                (one.packed ? ".unpack::16b" : "") + ".b32 [%r2]" + split +
                ", " + list("w", registers) + ";" + kWaitStore +
                "tcgen05.ld.sync.aligned.32x32b.x64.b32 " + list("v", 64) +
                ", [%r31];" + kWaitLoad + give("v", 64) + release(64));
    std::vector<uint32_t> expected(128 * 64);
    for (uint32_t i = 0; i < expected.size(); ++i)
      expected[i] = i / 64 << 16 | i % 64;
    for (int thread = 0; thread < 128; ++thread)
      for (int reg = 0; reg < registers; ++reg) {
        const Place at = placeOf(thread, reg);
        uint32_t *to = &expected[size_t(at.lane * 64 + at.column)];
        if (one.packed) {
          to[0] = uint32_t(reg);
          to[1] = uint32_t(thread);
        } else {
          *to = uint32_t(thread << 16 | reg);
        }
      }
    EXPECT_EQ(words, expected) << name;
  }
}

TEST_F(TensorColumnsTest, WaitsForLoadsAndStores) {
  const std::string begin = allocate(32), end = release(32);
  expectFinding(begin + kStore + kWaitStore + kLoad + kGive + kWaitLoad + end,
                "async", "is used before the tcgen05.wait::ld");
  expectFinding(begin + kStore + kLoad + kWaitLoad + kWaitStore + end, "async",
                "read before a tcgen05.wait::st for the store");
  expectFinding(begin + kStore + kWaitStore + kLoad + kStore + kWaitLoad +
                    kWaitStore + end,
                "async", "write before a tcgen05.wait::ld for the load");
  expectFinding(begin + kStore + end + kWaitStore, "async",
                "given back before a tcgen05.wait::st");
  expectFinding(begin + kStore, "async",
                "ended before a tcgen05.wait for this");
  expectFinding(begin + kLoad + kWaitLoad + end, "undefined",
                "nothing wrote lane");
  // An undefined register makes an undefined column, which may be dropped.
  const std::string undefined = "tcgen05.st.sync.aligned.32x32b.x1.b32 "
                                "[%r31], {%r5};" +
                                kWaitStore + kLoad + kWaitLoad;
  expectRight(begin + undefined + end);
  expectFinding(begin + undefined + "setp.eq.u32 %p1, %r1, 0; @%p1 ret;" + end,
                "undefined", "the guard");
}

TEST_F(TensorColumnsTest, OrderBetweenWarps) {
  // Warps 0 and 4 have the same lanes.
  threads = 160;
  const std::string begin =
      allocate(32) + "setp.ge.u32 %p6, %tid, 128; and.b32 %r3, %tid, 31;";
  const std::string store = "@%p7 tcgen05.st.sync.aligned.32x32b.x1.b32 "
                            "[%r31], {%tid};",
                    wait = "@%p7 tcgen05.wait::st.sync.aligned;",
                    sync = "bar.sync 0;",
                    load = "@%p6 tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r1}, "
                           "[%r31]; @%p6 tcgen05.wait::ld.sync.aligned;"
                           "@%p6 st.global.u32 [%mine], %r1;",
                    end = release(32);
  expectRight(begin + store + wait + kBefore + sync + kAfter + load + end);
  EXPECT_EQ(words[128 + 7], 7u);
  expectFinding(begin + store + wait + kBefore + kAfter + load + end, "race",
                "without synchronization after the");
  expectFinding(begin + store + wait + sync + kAfter + load + end, "tcgen05",
                "without a tcgen05.wait::st and a "
                "tcgen05.fence::before_thread_sync");
  expectFinding(begin + store + kBefore + sync + wait + kAfter + load + end,
                "tcgen05", "without a tcgen05.wait::st and a");
  expectFinding(begin + store + wait + kBefore + sync + load + end, "tcgen05",
                "without a tcgen05.fence::after_thread_sync");
}

TEST_F(TensorColumnsTest, LanesOfWarps) {
  threads = 128;
  const std::string begin =
      allocate(32) + kStore + kWaitStore + "setp.lt.u32 %p1, %tid, 64;";
  auto load = [](const char *shape, int lane) {
    return "add.s32 %r2, %r31, " + std::to_string(lane << 16) +
           "; @%p1 tcgen05.ld.sync.aligned." + shape + ".x1.b32 {%r1}, [%r2];" +
           kWaitLoad;
  };
  expectFinding(begin + load("32x32b", 64) + release(32), "tcgen05",
                "lane 64 of tensor memory, warp 0 may begin at lane 0");
  expectFinding(begin + load("32x32b", 16) + release(32), "tcgen05",
                "lane 16 of tensor memory, warp 0 may begin at lane 0");
  expectFinding(begin + load("16x64b", 48) + release(32), "tcgen05",
                "lane 48 of tensor memory, warp 0 may begin at lane 0 or 16");
  expectFinding(begin +
                    "add.s32 %r2, %r31, %tid;"
                    "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r1}, [%r2];" +
                    kWaitLoad + release(32),
                "tcgen05", "lanes of the warp have different addresses");
}

TEST_F(TensorColumnsTest, Allocation) {
  const std::string use = kStore + kWaitStore;
  expectFinding(allocate(32) + use, "tcgen05", "the CTA ended with columns");
  expectFinding(allocate(48) + use, "tcgen05",
                "48 columns of tensor memory, expected a power of two");
  expectFinding("mov.u32 %r31, 0;" + use, "tcgen05",
                "has not allocated column 0, which nobody has");
  expectFinding(allocate(32) + release(32) + use, "tcgen05",
                "has not allocated column");
  expectFinding(allocate(32) + "add.s32 %r31, %r31, 31;" +
                    "tcgen05.st.sync.aligned.32x32b.x2.b32 [%r31], {%tid, "
                    "%tid};" +
                    kWaitStore,
                "tcgen05", "has not allocated column");
  expectFinding(allocate(32) + release(64), "tcgen05",
                "no allocation of 64 columns at");
  const std::string relinquish =
      "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;";
  expectRight(allocate(32) + relinquish + release(32));
  expectFinding(relinquish + allocate(32) + release(32), "tcgen05",
                "given up its permit");
  expectFinding(allocate(32) + release(32) + allocate(64) + release(64),
                "tcgen05", "64 columns after an allocation of 32");
  expectFinding(allocate(32) + "bar.sync 0; @%p7 tcgen05.dealloc.cta_group::2."
                               "sync.aligned.b32 %r31, 32;",
                "tcgen05", "cta_group::2 in a kernel that has used");
}

TEST_F(TensorColumnsTest, CtasShareTheColumnsOfAnSm) {
  settings.numSms = 1;
  ctas = 3;
  const std::string give = "mov.u32 %r5, %ctaid.x; shl.b32 %r5, %r5, 7;"
                           "cvt.u64.u32 %d0, %r5; add.s64 %d0, %d0, %mine;"
                           "st.global.u32 [%d0], %r1;";
  for (int columns : {512, 256, 128})
    expectRight(allocate(columns) + kStore + kWaitStore + kLoad + kWaitLoad +
                give + release(columns));
  EXPECT_EQ(words[64 + 9], 9u);
  // A second allocation waits for what the CTA itself has.
  ctas = 1;
  expectFinding(allocate(512) + allocate(512), "deadlock", "tcgen05.alloc");
  // One that another CTA has.
  ctas = 2;
  expectFinding(allocate(256) + "xor.b32 %r31, %r31, 256;" + kStore +
                    kWaitStore + "xor.b32 %r31, %r31, 256;" + release(256),
                "tcgen05", "has not allocated column");
}
