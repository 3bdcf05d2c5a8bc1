//===- TileTest.cpp - tests of TMA tiles ----------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Gathered rows, types with gaps and copies to several CTAs of a cluster.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/core/TensorMap.h"
#include "test/emulator/tests/RunPtx.h"

#include <fmt/core.h>

using namespace moec::emulator;

namespace {
/// The map and the tensor of 16 rows of 64 bytes begin on 64 bytes, results at
/// word 512.
class Tiles : public PtxTest {
protected:
  static constexpr uint32_t kResults = 512;
  uint32_t mapAt = 0, tensor = 0;

  Tiles() {
    target = "sm_100a";
    words.assign(2048, 0);
    while (reinterpret_cast<uint64_t>(&words[mapAt]) % 64)
      ++mapAt;
    tensor = mapAt + 64;
    for (uint32_t i = 0; i < 256; ++i)
      words[tensor + i] = 0x01000000 + i * 0x3001;
  }

  void makeMap(int type, uint32_t columns, uint32_t box0, uint32_t box1,
               int swizzle = 0) {
    const uint64_t extents[] = {columns, 16}, strides[] = {64};
    const uint32_t box[] = {box0, box1}, steps[] = {1, 1};
    TensorMap map;
    const TensorMapRequest request{
        type,    2,       reinterpret_cast<uint64_t>(&words[tensor]),
        extents, strides, box,
        steps,   0,       swizzle,
        0,       0};
    ASSERT_EQ(encodeTensorMap(request, map), "");
    std::memcpy(&words[mapAt], &map, sizeof(map));
  }

  /// The map at %d5, the mbarrier at %r10, the tile at %r11; %p0 is true in
  /// thread 0.
  std::string begin() const {
    return fmt::format("add.s64 %d5, %base, {};", mapAt * 4) +
           "mov.u32 %r10, memory; setp.eq.u32 %p0, %tid, 0;"
           "@%p0 mbarrier.init.shared::cta.b64 [%r10], 1;"
           "fence.mbarrier_init.release.cluster; add.s32 %r11, %r10, 1151;"
           "and.b32 %r11, %r11, 0xFFFFFC00; bar.sync 0;";
  }
  static std::string expectBytes(unsigned bytes) {
    return fmt::format("@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, "
                       "[%r10], {};",
                       bytes);
  }
  static std::string await() {
    return "wait: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r10], 0;"
           "@!%p1 bra wait;\n";
  }
  /// Each thread gives the word of its number, and 32 words on.
  static std::string give(unsigned rounds) {
    std::string text = "shl.b32 %r12, %tid, 2; add.s32 %r12, %r12, %r11;"
                       "mov.u32 %r14, %cluster_ctarank; shl.b32 %r14, %r14, 9;"
                       "cvt.u64.u32 %d0, %r14; add.s64 %d0, %d0, %mine;";
    for (unsigned i = 0; i < rounds; ++i)
      text += fmt::format("ld.shared.u32 %r0, [%r12+{}];"
                          "st.global.u32 [%d0+{}], %r0;",
                          i * 128, kResults * 4 + i * 128);
    return text;
  }
};
} // namespace

static const std::string kSync = "barrier.cluster.arrive.release.aligned;"
                                 "barrier.cluster.wait.acquire.aligned;";

TEST_F(Tiles, GathersFourRows) {
  // Rows of 64 bytes; the row 20 is outside of the tensor.
  makeMap(/*type=*/0, 64, 64, 1);
  const std::string gather =
      "mov.u32 %r1, 0; mov.u32 %r2, 9; mov.u32 %r3, 2; mov.u32 %r4, 20;"
      "mov.u32 %r5, 15; @%p0 cp.async.bulk.tensor.2d.shared::{}.global."
      "tile::gather4.mbarrier::complete_tx::bytes [%r11], [%d5, {{%r1, %r2, "
      "%r3, %r4, %r5}}], [%r10];";
  shared = 8192;
  for (const char *space : {"cta", "cluster"}) {
    expectRight(begin() + expectBytes(256) +
                fmt::format(fmt::runtime(gather), space) + await() + give(2));
    const uint32_t rows[] = {9, 2, 20, 15};
    for (uint32_t i = 0; i < 64; ++i)
      EXPECT_EQ(words[kResults + i],
                rows[i / 16] < 16 ? words[tensor + rows[i / 16] * 16 + i % 16]
                                  : 0);
  }
  makeMap(/*type=*/0, 64, 64, 4);
  expectFinding(begin() + expectBytes(256) +
                    fmt::format(fmt::runtime(gather), "cta"),
                "bounds", "the box of the tensor map has 4 rows");
}

TEST_F(Tiles, TypesOfFourBitsWithGaps) {
  // 128 elements of 4 bits: 64 bytes of memory are 128 bytes of shared memory.
  shared = 8192;
  for (const int swizzle : {0, 3}) {
    makeMap(/*type=*/14, 128, 128, 4, swizzle);
    const std::string body =
        begin() + expectBytes(256) +
        "mov.u32 %r1, 0; mov.u32 %r2, 3; @%p0 cp.async.bulk.tensor.2d."
        "shared::cta.global.tile.mbarrier::complete_tx::bytes [%r11], [%d5, "
        "{%r1, %r2}], [%r10];" +
        await();
    expectRight(body + give(4));
    for (uint32_t row = 0; row < 4; ++row)
      for (uint32_t i = 0; i < 16; ++i) {
        uint32_t chunk = i / 2;
        if (swizzle == 3)
          chunk ^= row;
        EXPECT_EQ(words[kResults + row * 32 + chunk * 4 + i % 2],
                  words[tensor + (row + 3) * 16 + i]);
      }
    // Nothing wrote the gaps.
    expectFinding(body + "ld.shared.u32 %r0, [%r11+8]; setp.eq.u32 %p2, %r0, "
                         "0; @%p2 ret;",
                  "undefined", "the guard");
  }
}

TEST_F(Tiles, CopiesToCtasOfACluster) {
  makeMap(/*type=*/0, 64, 64, 2);
  shared = 8192;
  ctas = cluster = 4;
  auto copy = [](const char *name, const char *from, const char *mask) {
    return fmt::format(
        "mov.u32 %r13, %cluster_ctarank; setp.eq.and.u32 %p2, %r13, 1, %p0;"
        "mov.u16 %h0, {}; mov.u32 %r1, 0; mov.u32 %r2, 5;"
        "@%p2 cp.async.bulk{}.multicast::cluster [%r11], {}, [%r10], %h0;\n",
        mask, name, from);
  };
  const std::string tile = copy(
      ".tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes",
      "[%d5, {%r1, %r2}]", "13");
  const std::string bytes =
      "add.s64 %d1, %base, " + std::to_string((tensor + 5 * 16) * 4) + ";" +
      copy(".shared::cluster.global.mbarrier::complete_tx::bytes", "[%d1], 128",
           "13");
  const std::string end = "setp.ne.u32 %p3, %r13, 1; @!%p3 bra done;" +
                          await() + give(1) + "done:" + kSync;
  for (const std::string &load : {tile, bytes}) {
    expectRight(begin() + expectBytes(128) + kSync + load + end);
    for (uint32_t rank : {0, 2, 3})
      for (uint32_t i = 0; i < 32; ++i)
        EXPECT_EQ(words[kResults + rank * 128 + i], words[tensor + 5 * 16 + i]);
    EXPECT_EQ(words[kResults + 128 + 3], 0u);
  }
  // Another CTA that has not made its mbarrier yet, or does not exist.
  expectFinding(begin() +
                    copy(".tensor.2d.shared::cluster.global.tile."
                         "mbarrier::complete_tx::bytes",
                         "[%d5, {%r1, %r2}]", "16") +
                    kSync,
                "bounds", "which does not exist");
  expectFinding(begin() +
                    copy(".tensor.2d.shared::cluster.global.tile."
                         "mbarrier::complete_tx::bytes",
                         "[%d5, {%r1, %r2}]", "0") +
                    kSync,
                "async", "the mask has no CTA");
  // The CTAs write over what others read.
  const std::string read = "ld.shared.u32 %r9, [%r11];";
  expectFinding(begin() + "st.shared.u32 [%r11], 3; bar.sync 0;" + read +
                    expectBytes(128) + kSync + tile + read + end,
                "race", "shared address");
}

TEST_F(Tiles, OnlyAPairSignalsTheOtherCta) {
  makeMap(/*type=*/0, 64, 64, 2);
  shared = 8192;
  ctas = cluster = 2;
  // The odd CTA loads its own rows and signals the even one.
  auto load = [](const char *group) {
    return fmt::format(
        "mov.u32 %r13, %cluster_ctarank; setp.eq.and.u32 %p2, %r13, 1, %p0;"
        "mov.u32 %r1, 0; mov.u32 %r2, 5; and.b32 %r16, %r10, 0xFEFFFFFF;"
        "@%p2 cp.async.bulk.tensor.2d{}.shared::cluster.global.mbarrier::"
        "complete_tx::bytes [%r11], [%d5, {{%r1, %r2}}], [%r16];\n",
        group);
  };
  const std::string end = "setp.eq.u32 %p3, %r13, 0; @!%p3 bra met;" + await() +
                          "met:" + kSync + give(1) + kSync;
  expectRight(begin() + expectBytes(128) + kSync + load(".cta_group::2") + end);
  for (uint32_t i = 0; i < 32; ++i)
    EXPECT_EQ(words[kResults + 128 + i], words[tensor + 5 * 16 + i]);
  expectFinding(begin() + expectBytes(128) + kSync + load("") + end, "mbarrier",
                "writes to CTA 1 and signals CTA 0");
  expectFinding(begin() + expectBytes(128) + kSync + load(".cta_group::2") +
                    give(1) + kSync,
                "race",
                "read without synchronization after a write by the "
                "asynchronous proxy");
}
