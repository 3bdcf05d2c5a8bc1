//===- PermuteTest.cpp - pairs in the order of their experts --------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Kernel permute, compiled for the host, with blocks that grow with the tokens.
//
//===----------------------------------------------------------------------===//

#include "test/templates/DeviceFunctions.h"

#define __shared__ static
#define __syncwarp warps::synchronize

#include <algorithm>
#include <gtest/gtest.h>
#include <random>
#include <vector>

// Kernels of another test have a sharedBytes() of their own.
#define sharedBytes sharedBytesOfPermute
#include "templates/moe/kernel/permute.cuh"
#undef sharedBytes

namespace {

constexpr int kExperts = 5, kBegin = 1, kLocal = 3;

template <int kPairsOfToken, int kBlocks> struct Config {
  struct Args {
    const int *topk_ids, *block_counts;
    int local_begin, tokens;
    int *rows, *positions, *offsets;
    int4 *tiles;
    int *tile_count, *counts;
  };
  static constexpr int kThreads = 64;
  static constexpr bool kProgrammatic = false, kCpAsync = true;
  static constexpr int kExperts = ::kExperts, kLocalExperts = kLocal;
  static constexpr int kPairs = kPairsOfToken, kBlockTokens = 4;
  static constexpr int kMostBlocks = kBlocks;
  static constexpr int kTileRows = 16, kRowStep = 16, kCounters = 2;
};

/// Runs the kernel on random ids, and compares with a stable sort.
template <class Config> void check(int tokens, int blockTokens) {
  constexpr int kPairs = Config::kPairs;
  const int pairs = tokens * kPairs;
  ASSERT_EQ(moe::routing::blockTokensOf<Config>(tokens), blockTokens);
  const int blocks = (tokens + blockTokens - 1) / blockTokens;
  if constexpr (Config::kMostBlocks > 0) {
    EXPECT_LE(blocks, Config::kMostBlocks);
  }

  std::mt19937 random(3);
  std::vector<int> ids(size_t(pairs), 0), counts(size_t(blocks * kExperts), 0);
  for (int pair = 0; pair < pairs; ++pair) {
    // Some pairs have no expert.
    const int id = int(random() % (kExperts + 1)) - 1;
    ids[size_t(pair)] = id;
    if (id >= 0)
      ++counts[size_t(pair / kPairs / blockTokens * kExperts + id)];
  }
  std::vector<int> rows(size_t(pairs), -7), positions(size_t(pairs), -7);
  std::vector<int> offsets(size_t(kLocal + 1), -7), own(size_t(kLocal), -7);
  std::vector<int> tileCount(3, -7);
  std::vector<int4> tiles(size_t(pairs / 16 + 1 + kLocal));
  const typename Config::Args args = {
      ids.data(),       counts.data(),    kBegin,         tokens,
      rows.data(),      positions.data(), offsets.data(), tiles.data(),
      tileCount.data(), own.data()};
  for (blockIdx.x = 0; blockIdx.x < unsigned(blocks); ++blockIdx.x)
    warps::run(Config::kThreads, [&] { moe::permute<Config>(args); });

  std::vector<int> expected(size_t(pairs), -1);
  int row = 0, tileTotal = 0;
  for (int e = 0; e < kLocal; ++e) {
    EXPECT_EQ(offsets[size_t(e)], row);
    for (int pair = 0; pair < pairs; ++pair)
      if (ids[size_t(pair)] == kBegin + e) {
        ASSERT_EQ(rows[size_t(row)], pair) << "row " << row;
        expected[size_t(pair)] = row++;
      }
    EXPECT_EQ(own[size_t(e)], row - offsets[size_t(e)]);
    tileTotal += (own[size_t(e)] + 15) / 16;
  }
  EXPECT_EQ(offsets[size_t(kLocal)], row);
  EXPECT_EQ(positions, expected);
  EXPECT_EQ(tileCount, (std::vector<int>{tileTotal, 0, 0}));
}

TEST(Permute, blocksThatDoNotGrow) { check<Config<2, 0>>(37, 4); }

TEST(Permute, blocksGrowWithTheTokens) {
  check<Config<2, 3>>(12, 4);
  check<Config<2, 3>>(13, 8);
  check<Config<2, 3>>(100, 36);
}

/// A block of 65,600 pairs is placed in two parts.
TEST(Permute, aBlockOfMorePairsThanSixteenBits) {
  check<Config<32, 1>>(2050, 2052);
}

} // namespace
