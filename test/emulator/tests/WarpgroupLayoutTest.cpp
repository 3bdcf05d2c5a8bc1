//===- WarpgroupLayoutTest.cpp - tests of the layouts of wgmma ------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Bytes are put where the manual's figures have them, one by one, and the
// results compared with the product of the matrices: all swizzles, types,
// widths, the second step of a row, and A in registers.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/core/Numbers.h"
#include "test/emulator/tests/RunPtx.h"

using namespace moec::emulator;

namespace {
constexpr unsigned kRows = 64, kStepBytes = 32;

struct Operand {
  const char *type, *sum, *shape;
  unsigned bytes;
};
constexpr Operand kBfloats{"bf16", "f32", "k16", 2},
    kHalves{"f16", "f32", "k16", 2}, kE4M3s{"e4m3", "f32", "k32", 1},
    kIntegers{"s8", "s32", "k32", 1};

struct Layout {
  Operand operand;
  unsigned swizzle; ///< bytes of a row; 16: none
  unsigned columns;
  unsigned step; ///< of the 32 bytes that are multiplied, in a row
  bool fromRegisters;
};

class WarpgroupLayout : public PtxTest,
                        public testing::WithParamInterface<Layout> {};
} // namespace

static int entry(int seed, unsigned row, unsigned column) {
  return (seed * 7 + int(row) * 5 + int(column) * 3 + int(row * column)) % 9 -
         4;
}

static void put(uint8_t *to, const Operand &operand, int value) {
  uint16_t bits = 0;
  if (std::string_view(operand.type) == "bf16")
    bits = encodeBfloat(float(value));
  else if (std::string_view(operand.type) == "f16")
    bits = encodeHalf(float(value));
  else if (std::string_view(operand.type) == "e4m3")
    bits = encodeSmall(float(value), kE4M3);
  else
    bits = uint8_t(value);
  std::memcpy(to, &bits, operand.bytes);
}

/// The place of a byte of a row: 8 rows of one core behind each other, chunks
/// of 16 bytes in the order that the figure of the swizzle has.
static unsigned placeOf(const Layout &layout, unsigned row, unsigned byte) {
  const unsigned chunk = byte / 16, group = row / 8, inGroup = row % 8;
  switch (layout.swizzle) {
  case 128:
    return group * 1024 + inGroup * 128 + (chunk ^ inGroup) * 16 + byte % 16;
  case 64:
    return group * 512 + inGroup * 64 + (chunk ^ inGroup / 2) * 16 + byte % 16;
  case 32:
    return group * 256 + inGroup * 32 + (chunk ^ inGroup / 4) * 16 + byte % 16;
  default:
    // Without a swizzle a core is 128 bytes, and those along k follow.
    return group * 256 + chunk * 128 + inGroup * 16 + byte % 16;
  }
}

/// Bits of a descriptor beside the address.
static uint64_t descriptorOf(const Layout &layout) {
  const uint64_t stride = layout.swizzle == 16 ? 256 : 8 * layout.swizzle;
  const uint64_t kind = layout.swizzle == 128  ? 1
                        : layout.swizzle == 64 ? 2
                        : layout.swizzle == 32 ? 3
                                               : 0;
  return kind << 62 | stride / 16 << 32 | uint64_t(128 / 16) << 16;
}

TEST_P(WarpgroupLayout, IsTheManuals) {
  const Layout &layout = GetParam();
  const Operand &operand = layout.operand;
  const unsigned columns = layout.columns, k = kStepBytes / operand.bytes;
  const unsigned ofA = 64 * std::max(layout.swizzle, 32u),
                 bytes = ofA + columns * std::max(layout.swizzle, 32u);
  const unsigned registersAt = (bytes + 15) / 16 * 16,
                 sumsAt = registersAt + 128 * 16;
  threads = 128;
  shared = bytes + 1024;
  words.assign(sumsAt / 4 + 128 * columns / 2, 0);
  auto *memory = reinterpret_cast<uint8_t *>(words.data());
  for (unsigned row = 0; row < kRows + columns; ++row)
    for (unsigned i = 0; i < k; ++i) {
      const bool isA = row < kRows;
      const unsigned ofRow = isA ? row : row - kRows;
      const unsigned byte = layout.step * kStepBytes + i * operand.bytes;
      put(memory + (isA ? 0 : ofA) + placeOf(layout, ofRow, byte), operand,
          entry(isA ? 1 : 2, ofRow, i));
      if (!isA)
        continue;
      // Warps have 16 rows; quads of lanes have one, 8 further on another.
      const unsigned word = i * operand.bytes / 4;
      const unsigned thread = row / 16 * 32 + row % 8 * 4 + word % 4,
                     reg = row % 16 / 8 + word / 4 * 2;
      put(memory + registersAt + thread * 16 + reg * 4 + i * operand.bytes % 4,
          operand, entry(1, row, i));
    }

  const std::string step = std::to_string(layout.step * kStepBytes / 16);
  std::string sums, give;
  for (unsigned i = 0; i < columns / 2; ++i) {
    sums += (i ? ", %s" : "%s") + std::to_string(i);
    give += "st.global.u32 [%d0+" + std::to_string(4 * i) + "], %s" +
            std::to_string(i) + ";";
  }
  const std::string b = std::to_string(ofA / 16);
  const bool isInteger = std::string_view(operand.sum) == "s32";
  std::string last = ", %p2";
  if (!isInteger)
    last += operand.bytes == 2
                ? (layout.fromRegisters ? ", 1, 1, 0" : ", 1, 1, 0, 0")
                : ", 1, 1";
  expectRight(
      "mov.u32 %r20, memory; add.s32 %r20, %r20, 1023;"
      "and.b32 %r20, %r20, 0xFFFFFC00; mov.u32 %r21, %tid;"
      "fill: shl.b32 %r22, %r21, 2; cvt.u64.u32 %d0, %r22;"
      "add.s64 %d0, %d0, %base; ld.global.u32 %r0, [%d0];"
      "add.s32 %r22, %r22, %r20; st.shared.u32 [%r22], %r0;"
      "add.s32 %r21, %r21, 128; setp.lt.u32 %p1, %r21, " +
      std::to_string(bytes / 4) +
      "; @%p1 bra fill;"
      "mul.wide.u32 %d0, %tid, 16; add.s64 %d0, %d0, %base;"
      "ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%d0+" +
      std::to_string(registersAt) +
      "]; fence.proxy.async.shared::cta; bar.sync 0;"
      "shr.u32 %r20, %r20, 4; cvt.u64.u32 %d1, %r20; or.b64 %d1, %d1, " +
      std::to_string(descriptorOf(layout)) + "; add.s64 %d2, %d1, " + b +
      "; add.s64 %d1, %d1, " + step + "; add.s64 %d2, %d2, " + step +
      "; setp.ne.u32 %p2, %tid, %tid; {.reg .b32 %s<128>;"
      "wgmma.fence.sync.aligned; wgmma.mma_async.sync.aligned.m64n" +
      std::to_string(columns) + operand.shape + "." + operand.sum + "." +
      operand.type + "." + operand.type + " {" + sums + "}, " +
      (layout.fromRegisters ? "{%r0, %r1, %r2, %r3}" : "%d1") + ", %d2" + last +
      "; wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"
      "mul.wide.u32 %d0, %tid, " +
      std::to_string(2 * columns) + "; add.s64 %d0, %d0, %base;" +
      "add.s64 %d0, %d0, " + std::to_string(sumsAt) + ";" + give + "}");

  for (unsigned row = 0; row < kRows; ++row)
    for (unsigned column = 0; column < columns; ++column) {
      int expected = 0;
      for (unsigned i = 0; i < k; ++i)
        expected += entry(1, row, i) * entry(2, column, i);
      // Each 8 columns are 4 registers.
      const unsigned thread = row / 16 * 32 + row % 8 * 4 + column % 8 / 2,
                     reg = column / 8 * 4 + row % 16 / 8 * 2 + column % 2;
      const uint32_t got = words[sumsAt / 4 + thread * columns / 2 + reg];
      ASSERT_EQ(isInteger ? int(got) : int(std::bit_cast<float>(got)), expected)
          << row << ", " << column;
    }
}

INSTANTIATE_TEST_SUITE_P(
    All, WarpgroupLayout,
    testing::Values(
        Layout{kBfloats, 16, 8, 0, false}, Layout{kBfloats, 32, 16, 0, false},
        Layout{kBfloats, 64, 24, 1, false}, Layout{kBfloats, 128, 64, 3, false},
        Layout{kHalves, 16, 40, 0, true}, Layout{kHalves, 128, 256, 2, false},
        Layout{kE4M3s, 16, 16, 0, false}, Layout{kE4M3s, 32, 8, 0, true},
        Layout{kE4M3s, 64, 96, 0, false}, Layout{kE4M3s, 128, 128, 1, true},
        Layout{kIntegers, 64, 8, 1, true}, Layout{kIntegers, 128, 32, 2, false},
        Layout{kBfloats, 128, 248, 1, true}),
    [](const testing::TestParamInfo<Layout> &info) {
      const Layout &layout = info.param;
      return std::string(layout.operand.type) + "_" +
             std::to_string(layout.swizzle) + "_n" +
             std::to_string(layout.columns) + "_step" +
             std::to_string(layout.step) +
             (layout.fromRegisters ? "_registers" : "");
    });
