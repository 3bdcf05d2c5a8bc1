//===- TensorScaleTest.cpp - tests of tcgen05 with block scales -----------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// tcgen05.cp of all shapes, and kinds that multiply by scales of blocks.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/tests/TensorProduct.h"

using namespace moec::emulator;

static constexpr unsigned kAtB = 32768, kScalesA = 40960, kScalesB = 41472;

namespace {
class TensorScale : public TensorProduct {
protected:
  /// A descriptor in %d3 of bytes of the image without a swizzle.
  static std::string source(unsigned at, unsigned leading, unsigned stride) {
    const TensorLayout layout = {kFp8, 0, leading, stride};
    return fmt::format("add.s32 %r21, %r20, {}; shr.u32 %r21, %r21, 4;"
                       "cvt.u64.u32 %d3, %r21; or.b64 %d3, %d3, {:#x};",
                       at, layout.descriptor());
  }
  static std::string copy(const char *shape, unsigned column) {
    return fmt::format("add.s32 %r21, %r31, {}; @%p6 tcgen05.cp.cta_group::1."
                       "{} [%r21], %d3;",
                       column, shape);
  }
  /// Scales of 128 rows at column 64, of up to 128 columns at column 68.
  static std::string copyScales() {
    return source(kScalesA, 0, 128) + copy("32x128b.warpx4", 64) +
           source(kScalesB, 0, 128) + copy("32x128b.warpx4", 68) +
           "add.s32 %r24, %r31, 64; add.s32 %r25, %r31, 68;";
  }

  struct Case {
    const char *kind;
    TensorLayout a, b;
    unsigned n, depth, block; ///< block: of k
    bool isE4M3;
    unsigned idA, idB;
  };
  /// The code of a scale, and its value.
  static uint8_t scaleCode(const Case &one, unsigned seed, unsigned row,
                           unsigned part) {
    const unsigned step = (seed + row * 3 + part * 5 + row / 32) % 4;
    if (!one.isE4M3)
      return uint8_t(126 + step);
    static constexpr uint8_t kCodes[] = {0x38, 0x3C, 0x40, 0x30};
    return kCodes[step];
  }
  static double scaleOf(const Case &one, unsigned seed, unsigned row,
                        unsigned part) {
    const uint8_t code = scaleCode(one, seed, row, part);
    if (!one.isE4M3)
      return std::ldexp(1.0, int(code) - 127);
    return code == 0x38 ? 1 : code == 0x3C ? 1.5 : code == 0x40 ? 2 : 0.5;
  }
  /// Bytes `id` on of a row's four have its scales; the others mislead.
  void layOutScales(const Case &one) {
    auto put = [&](unsigned at, unsigned rows, unsigned seed, unsigned id) {
      for (unsigned row = 0; row < rows; ++row)
        for (unsigned byte = 0; byte < 4; ++byte) {
          const unsigned parts = one.depth / one.block;
          const bool isRead = byte >= id && byte < id + parts;
          image()[at + row % 32 * 16 + row / 32 * 4 + byte] =
              isRead ? scaleCode(one, seed, row, byte - id) : 0x10;
        }
    };
    put(kScalesA, 128, 1, one.idA);
    put(kScalesB, one.n, 2, one.idB);
  }
  static std::string multiply(const Case &one) {
    return fmt::format("@%p6 tcgen05.mma.cta_group::1.kind::{} [%r31], %d1, "
                       "%d2, %r4, [%r24], [%r25], %p5;",
                       one.kind);
  }
  static uint32_t instructionOf(const Case &one) {
    return instruction(one.a.type, one.b.type, 128, one.n,
                       one.idB << 4 | uint32_t(!one.isE4M3) << 23 |
                           one.idA << 29 | uint32_t(one.a.isTransposed) << 15 |
                           uint32_t(one.b.isTransposed) << 16);
  }
  std::string prepare(const Case &one) {
    layOut(one.a, one.b, 128, one.n, one.depth, kAtB);
    layOutScales(one);
    return begin() + synchronize() +
           describe(one.a, one.b, kAtB, instructionOf(one));
  }
  void expectProduct(const Case &one) {
    for (unsigned row = 0; row < 128; ++row)
      for (unsigned column = 0; column < one.n; ++column) {
        double expected = 0;
        for (unsigned k = 0; k < one.depth; ++k)
          expected += valueOfA(one.a, row, k) *
                      valueOfA(one.b, column + 1000, k) *
                      scaleOf(one, 1, row, k / one.block) *
                      scaleOf(one, 2, column, k / one.block);
        ASSERT_EQ(value(row, column), float(expected))
            << one.kind << ", row " << row << ", column " << column;
      }
  }
};
} // namespace

TEST_F(TensorScale, CopiesOfAllShapes) {
  struct Shape {
    const char *name;
    unsigned rows, bytes;
    std::vector<unsigned> (*lanes)(unsigned row);
  };
  const Shape shapes[] = {
      {"128x256b", 128, 32,
       [](unsigned row) { return std::vector<unsigned>{row}; }},
      {"128x128b", 128, 16,
       [](unsigned row) { return std::vector<unsigned>{row}; }},
      {"64x128b.warpx2::02_13", 64, 16,
       [](unsigned row) { return std::vector<unsigned>{row, row + 64}; }},
      {"64x128b.warpx2::01_23", 64, 16,
       [](unsigned row) {
         const unsigned first = row < 32 ? row : row + 32;
         return std::vector<unsigned>{first, first + 32};
       }},
      {"32x128b.warpx4", 32, 16,
       [](unsigned row) {
         return std::vector<unsigned>{row, row + 32, row + 64, row + 96};
       }},
      {"4x256b", 4, 32,
       [](unsigned row) { return std::vector<unsigned>{32 * row + 5}; }}};
  for (const Shape &shape : shapes)
    for (const unsigned width : {8u, 6u, 4u}) {
      std::fill(words.begin(), words.end(), 0);
      const unsigned atoms = shape.bytes / 16;
      // Blocks of 8 rows of 16 bytes; the blocks of a row are 128 bytes apart.
      std::vector<std::vector<uint8_t>> rows(shape.rows);
      for (unsigned row = 0; row < shape.rows; ++row)
        for (unsigned byte = 0; byte < shape.bytes; ++byte) {
          const unsigned code = (row * 5 + byte * 3 + 1) % (1u << width);
          rows[row].push_back(uint8_t(width == 4 ? code << 2 : code));
          for (unsigned i = 0; i < width; ++i) {
            const unsigned bit = byte % 16 * width + i;
            if (code >> i & 1)
              image()[row / 8 * atoms * 128 + byte / 16 * 128 + row % 8 * 16 +
                      bit / 8] |= uint8_t(1 << bit % 8);
          }
        }
      const std::string zero =
          ".reg .b32 %z; mov.u32 %z, 0; tcgen05.st.sync.aligned.32x32b.x8.b32 "
          "[%r31], {%z, %z, %z, %z, %z, %z, %z, %z};"
          "tcgen05.wait::st.sync.aligned;";
      const bool isLow = shape.rows == 4;
      expectRight(
          begin() + synchronize() + zero + synchronize() +
          source(0, 128, atoms * 128) +
          copy((shape.name + std::string(width == 4   ? ".b8x16.b4x16_p64"
                                         : width == 6 ? ".b8x16.b6x16_p32"
                                                      : ""))
                   .c_str(),
               isLow ? 5 << 16 : 0) +
          commit() + await() + give(8) + end());
      std::vector<uint32_t> expected(128 * 8);
      for (unsigned row = 0; row < shape.rows; ++row)
        for (unsigned lane : shape.lanes(row))
          std::memcpy(&expected[lane * 8], rows[row].data(), shape.bytes);
      for (unsigned lane = 0; lane < 128; ++lane)
        for (unsigned column = 0; column < 8; ++column)
          ASSERT_EQ(result(lane, column), expected[lane * 8 + column])
              << shape.name << ", width " << width << ", lane " << lane
              << ", column " << column;
    }
}

TEST_F(TensorScale, KindsAndIds) {
  const TensorLayout fp8 = {kFp8, 128, 0, 1024}, fp4 = {kFp4, 64, 0, 512},
                     wide = {kFp8Wide, 32, 0, 256},
                     dense = {kFp4Dense, 128, 0, 1024, false, 2};
  for (const Case &one : std::initializer_list<Case>{
           {"mxf8f6f4.block_scale", fp8, fp8, 16, 32, 32, false, 0, 0},
           {"mxf8f6f4.block_scale.block32", fp4, fp8, 40, 32, 32, false, 1, 3},
           {"mxf8f6f4.block_scale.scale_vec::1X",
            wide,
            {kFp6, 128, 0, 1024},
            16,
            32,
            32,
            false,
            3,
            2},
           {"mxf8f6f4.block_scale",
            {kFp8, 128, 4096, 1024, true},
            {kFp8, 64, 4096, 512, true},
            64,
            32,
            32,
            false,
            2,
            1},
           {"mxf4.block_scale", dense, dense, 16, 64, 32, false, 0, 2},
           {"mxf4.block_scale.block32", dense, dense, 40, 64, 32, false, 2, 0},
           {"mxf4nvf4.block_scale.block16", dense, dense, 24, 64, 16, true, 0,
            0},
           {"mxf4nvf4.block_scale.scale_vec::4X", dense, dense, 16, 64, 16,
            false, 0, 0},
           {"mxf4nvf4.block_scale.scale_vec::2X", dense, dense, 16, 64, 32,
            false, 2, 2}}) {
    expectRight(prepare(one) + copyScales() + multiply(one) + commit() +
                await() + give((one.n + 7) / 8 * 8) + end());
    expectProduct(one);
  }
}

TEST_F(TensorScale, TakesUnpackedCodesFromTensorMemory) {
  // A of 4 bits is copied to a byte for each element, and multiplied from
  // there.
  const TensorLayout packed = {kFp4, 0, 128, 256}, fp8 = {kFp8, 128, 0, 1024};
  const Case one = {
      "mxf8f6f4.block_scale", packed, fp8, 16, 32, 32, false, 1, 2};
  std::string mma = multiply(one);
  mma.replace(mma.find("%d1"), 3, "[%r29]");
  const std::string copyA =
      "add.s32 %r29, %r31, 80; @%p6 tcgen05.cp.cta_group::1.128x256b."
      "b8x16.b4x16_p64 [%r29], %d1;\n";
  expectRight(prepare(one) + copyScales() + copyA + mma + commit() + await() +
              give(16) + end());
  expectProduct(one);
  expectFinding(prepare(one) + copyScales() + "add.s32 %r29, %r31, 80;\n" +
                    mma + commit() + await() + end(),
                "undefined", "column");
}

TEST_F(TensorScale, OrderOfCopies) {
  const TensorLayout fp8 = {kFp8, 128, 0, 1024};
  const Case one = {"mxf8f6f4.block_scale", fp8, fp8, 16, 32, 32, false, 0, 0};
  const std::string begin_ = prepare(one), mma = multiply(one) + "\n";
  // Scales of only one quarter of lanes.
  const std::string some =
      ".reg .b32 %z; mov.u32 %z, 0x7F7F7F7F;"
      "add.s32 %r24, %r31, 64; add.s32 %r25, %r31, 68;"
      "@%p7 tcgen05.st.sync.aligned.32x32b.x8.b32 [%r24], {%z, %z, %z, %z, %z, "
      "%z, %z, %z}; @%p7 tcgen05.wait::st.sync.aligned;" +
      synchronize();
  expectFinding(begin_ + some + mma + commit() + await() + end(), "undefined",
                "nothing wrote lane 32, column");
  // Scales by another thread need its commit.
  const std::string copied = copyScales() + "\n" + commit();
  expectRight(begin_ + copied + await() + "bar.sync 0;" +
              "setp.eq.u32 %p6, %tid, 32;" + mma + commit() + await(1) + end());
  expectFinding(begin_ + "setp.eq.u32 %p6, %tid, 32;" + copyScales() + "\n" +
                    synchronize() + "setp.eq.u32 %p6, %tid, 0;" + mma +
                    commit() + await() + end(),
                "race",
                "read that no commit to an mbarrier orders after the "
                "copy");
  // Scales over accumulators in flight; sums over scales are pipelined.
  expectFinding(begin_ + copyScales() + mma + source(kScalesA, 0, 128) + "\n" +
                    copy("32x128b.warpx4", 0) + "\n" + commit() + await() +
                    end(),
                "race",
                "write that no commit to an mbarrier orders after the "
                "multiply");
  // Writes over bytes that a copy may still read.
  const std::string write =
      fmt::format("\n@%p6 st.shared.u32 [%r20+{}], 0;\n", kScalesA);
  expectFinding(begin_ + copyScales() + write + commit() + await() + end(),
                "race", "write without synchronization after a read by");
  expectRight(begin_ + copyScales() + commit() + await() + write + end());
}

TEST_F(TensorScale, RefusesIdsAndTypes) {
  const TensorLayout fp8 = {kFp8, 128, 0, 1024},
                     dense = {kFp4Dense, 128, 0, 1024};
  auto expect = [&](const Case &one, uint32_t bits, const std::string &text) {
    const std::string what =
        fmt::format("mov.u32 %r4, {:#x};", instructionOf(one) ^ bits);
    expectFinding(prepare(one) + copyScales() + what + multiply(one) +
                      commit() + await() + end(),
                  "tcgen05", text);
  };
  const Case
      mx = {"mxf8f6f4.block_scale", fp8, fp8, 16, 32, 32, false, 0, 0},
      four = {"mxf4.block_scale", dense, dense, 16, 64, 32, false, 0, 0},
      nv = {
          "mxf4nvf4.block_scale.block16", dense, dense, 16, 64, 16, true, 0, 0};
  expect(mx, 1u << 23, "scales of this kind are ue8m0");
  expect(four, 1u << 4, "ids 0 and 1 of the scales, expected 0 or 2");
  expect(nv, 1u << 30, "ids 2 and 0 of the scales, expected 0");
  expect(nv, 1u << 31, "K 96 is not covered");
  expect(nv, 1u << 15, "that are not K-major are not covered");
  expect(mx, 8u << 24 ^ 4u << 24, "M is 64, expected 128");
  expect(four, 3u << 7, "types 2 and 1 of A and B are not of this kind");
  EXPECT_THAT(refusal("tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale "
                      "[%r1], %d1, %d2, %r4, [%r24], [%r25], %p5;"),
              testing::HasSubstr("is not covered"));
  EXPECT_THAT(refusal("tcgen05.mma.cta_group::1.kind::f16.collector::a::use "
                      "[%r1], %d1, %d2, %r4, %p5;"),
              testing::HasSubstr("is not covered"));
  EXPECT_THAT(refusal("tcgen05.shift.cta_group::1.down [%r1];"),
              testing::HasSubstr("is not covered"));
}
