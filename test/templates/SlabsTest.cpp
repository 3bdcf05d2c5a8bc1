//===- SlabsTest.cpp - the order of fragments -----------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every element has a place of its own, the two functions of a place are each
// other's inverse, and a lane's words hold what the instruction's A operand
// wants (PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16").
//
//===----------------------------------------------------------------------===//

#include "templates/moe/math/host.h"

#include <gtest/gtest.h>
#include <set>

using namespace moe;

namespace {

template <int kBits, int kOperandBits = 16>
void expectInverse(int rows, int columns) {
  std::set<long long> bits;
  constexpr int kCodes = Slabs<kBits, kOperandBits>::kRunCodes;
  constexpr int kRunBits = 32 * Slabs<kBits, kOperandBits>::kRunWords;
  for (int run = 0; run < rows * columns / kCodes; ++run)
    for (int i = 0; i < kCodes; ++i) {
      const SlabPlace place =
          Slabs<kBits, kOperandBits>::place(run, i, columns);
      ASSERT_GE(place.row, 0);
      ASSERT_LT(place.row, rows);
      ASSERT_GE(place.column, 0);
      ASSERT_LT(place.column, columns);
      const long long bit =
          Slabs<kBits, kOperandBits>::bit(place.row, place.column, columns);
      ASSERT_EQ(bit, (long long)run * kRunBits + i * kBits);
      bits.insert(bit);
    }
  EXPECT_EQ(bits.size(), size_t(rows) * size_t(columns));
}

} // namespace

TEST(Slabs, PlacesOfCodes) {
  expectInverse<4>(192, 320);
  expectInverse<6>(128, 192);
  expectInverse<8>(128, 192);
  expectInverse<4, 8>(192, 384);
}

TEST(Slabs, PlacesOfNumbers) {
  for (int groups : {1, 3, 10})
    for (int i = 0; i < 192 * groups; ++i) {
      const SlabPlace place = SlabScales::place(i, groups);
      ASSERT_EQ(SlabScales::index(place.row, place.column, groups), i);
    }
  // The numbers of a thread's two rows are neighbours.
  EXPECT_EQ(SlabScales::index(5 + 8, 2, 3), SlabScales::index(5, 2, 3) + 1);
}

TEST(Slabs, ALanesRegisters) {
  // Lane 4 g + t of warp w: of row 16 w + g (+ 8), columns 2 t, 2 t + 1 (+ 8).
  for (int warp = 0; warp < 4; ++warp)
    for (int lane = 0; lane < 32; ++lane)
      for (int step = 0; step < 4; ++step)
        for (int part = 0; part < 4; ++part)
          for (int half = 0; half < 2; ++half) {
            const int row = 16 * warp + lane / 4 + part % 2 * 8;
            const int column = 16 * step + lane % 4 * 2 + half + part / 2 * 8;
            const int word4 = warp * 128 + lane * 4 + step;
            EXPECT_EQ(Slabs<4>::bit(row, column, 64),
                      word4 * 32 + 4 * (part + 4 * half));
            const int word8 = warp * 256 + step / 2 * 128 + lane * 4 +
                              step % 2 * 2 + part / 2;
            EXPECT_EQ(Slabs<8>::bit(row, column, 64),
                      word8 * 32 + 8 * (part % 2 + 2 * half));
            const int word6 = warp * 192 + step / 2 * 96 + lane * 3;
            EXPECT_EQ(Slabs<6>::bit(row, column, 64),
                      word6 * 32 + 6 * (step % 2 * 8 + part + 4 * half));
          }
}

TEST(Slabs, ALanesRegistersForBytes) {
  // Lane 4 g + t of warp w: of row 16 w + g (+ 8), columns 4 t .. 4 t + 3 (+
  // 16).
  for (int warp = 0; warp < 4; ++warp)
    for (int lane = 0; lane < 32; ++lane)
      for (int step = 0; step < 4; ++step)
        for (int part = 0; part < 4; ++part)
          for (int i = 0; i < 4; ++i) {
            const int row = 16 * warp + lane / 4 + part % 2 * 8;
            const int column = 32 * step + lane % 4 * 4 + i + part / 2 * 16;
            const int word = warp * 256 + step / 2 * 128 + lane * 4 +
                             step % 2 * 2 + part % 2;
            EXPECT_EQ((Slabs<4, 8>::bit(row, column, 128)),
                      word * 32 + 8 * i + 4 * (part / 2));
          }
}
