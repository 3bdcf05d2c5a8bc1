//===- permute.cuh - pairs in the order of their experts --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sorts all pairs by expert. One CTA places the pairs of a block of tokens
// (moe/routing/blocks.cuh). It sums the counts per block, which kernel `route`
// wrote, over earlier blocks and over all blocks. It then computes prefix sums
// over the experts and ranks its own pairs in order. The result is a stable
// counting sort without global atomics. A block with more than 65535 pairs, the
// limit of the 16-bit ranks, is placed in parts.
//
// Args, in order:
//   topk_ids: int [tokens, kPairs]
//   block_counts: int [blocks, E] for the E experts of the layer
//   local_begin: see moe/core/rank.cuh [optional]
//   int tokens
//   rows: int [tokens * kPairs], written: the pair index of each sorted row
//   positions: int [tokens, kPairs], written: the sorted row of each pair, or
//     -1 if its expert is not local
//   offsets: int [E_local + 1], written: the first row of each expert
//   tiles: int4 {expert, first row, end row, 0}, written
//   tile_count: int [1 + kCounters], written as {number of tiles, 0, ...}
//   counts: int [E_local], written: the rows of each expert; may be null
//
// Grid.x: one CTA per block of tokens.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/concepts.cuh"
#include "moe/core/pdl.cuh"
#include "moe/core/rank.cuh"
#include "moe/core/types.cuh"
#include "moe/routing/arrange.cuh"
#include "moe/routing/blocks.cuh"

namespace moe {

template <class Config> constexpr bool checkPermuteConfig() {
  checkCommonConfig<Config>();
  MOE_REQUIRE_VALUE(Config, kExperts, "experts of the layer");
  MOE_REQUIRE_VALUE(Config, kLocalExperts, "experts of this rank");
  MOE_REQUIRE_VALUE(Config, kPairs, "(token, expert) pairs per token");
  MOE_REQUIRE_VALUE(Config, kBlockTokens, "tokens of a CTA, as in route");
  MOE_REQUIRE_VALUE(Config, kMostBlocks,
                    "maximum number of blocks, as in route");
  MOE_REQUIRE_VALUE(Config, kTileRows, "rows per tile of the matmuls");
  MOE_REQUIRE_VALUE(Config, kRowStep, "granularity of rows per tile");
  MOE_REQUIRE_VALUE(Config, kCounters, "zeros after the number of tiles");
  static_assert(Config::kCounters >= 2 && Config::kCounters < 32,
                "kCounters must be 2 (the cursors of both matmuls) to 31");
  static_assert(Config::kBlockTokens * Config::kPairs <= 65535,
                "kBlockTokens * kPairs must fit the 16-bit ranks");
  return true;
}

/// Returns the dynamic shared memory of the kernel in bytes, 0.
template <class Config> constexpr int sharedBytes() {
  static_assert(checkPermuteConfig<Config>());
  return 0;
}

template <class Config>
__device__ __forceinline__ void permute(const typename Config::Args &args) {
  static_assert(checkPermuteConfig<Config>());
  constexpr int kLocal = Config::kLocalExperts;
  constexpr int kThreads = Config::kThreads;
  /// The number of interleaved sets (slices) of blocks. Different threads sum
  /// the counts of different slices in parallel.
  constexpr int kSlices = maximum(1, kThreads / kLocal);
  __shared__ routing::Arrangement<kLocal, kThreads> shared;
  __shared__ int partialBefore[kSlices][kLocal];
  __shared__ int partialTotal[kSlices][kLocal];

  awaitPredecessor<Config>();

  int thread = int(threadIdx.x);
  int block = int(blockIdx.x);
  int blockSize = routing::blockTokensOf<Config>(args.tokens);
  int blocks = ceilDiv(args.tokens, blockSize);
#pragma unroll 1
  for (int item = thread; item < kSlices * kLocal; item += kThreads) {
    int slice = item / kLocal, expert = item % kLocal;
    const int *column = args.block_counts + localBeginOf(args) + expert;
    int before = 0, total = 0;
#pragma unroll 8
    for (int b = slice; b < blocks; b += kSlices) {
      int count = column[(long long)b * Config::kExperts];
      total += count;
      before += b < block ? count : 0;
    }
    partialBefore[slice][expert] = before;
    partialTotal[slice][expert] = total;
  }
  __syncthreads();
#pragma unroll 1
  for (int expert = thread; expert < kLocal; expert += kThreads) {
    int before = 0, total = 0;
#pragma unroll 1
    for (int slice = 0; slice < kSlices; ++slice) {
      before += partialBefore[slice][expert];
      total += partialTotal[slice][expert];
    }
    shared.before[expert] = before;
    shared.total[expert] = total;
  }

  int firstToken = block * blockSize;
  int firstPair = firstToken * Config::kPairs;
  int endPair =
      firstPair + min(blockSize, args.tokens - firstToken) * Config::kPairs;
  auto localOf = [&](int pair) {
    return localExpertOf<Config>(args, args.topk_ids[firstPair + pair]);
  };
  auto place = [&](int pair, int row) {
    args.positions[firstPair + pair] = row;
    if (row >= 0)
      args.rows[row] = firstPair + pair;
  };
  // Without kMostBlocks, blocks have a fixed size, so a block is always placed
  // in one part.
  auto partOf = [&] {
    return Config::kMostBlocks > 0 ? min(endPair - firstPair, 65535)
                                   : endPair - firstPair;
  };
  int pairs = partOf();
  routing::countPairs<false>(shared, pairs, localOf);
  routing::scanExperts<Config::kTileRows>(shared);
  __syncthreads();
  routing::placePairs(shared, pairs, localOf, place);
  if constexpr (Config::kMostBlocks > 0) {
#pragma unroll 1
    while ((firstPair += pairs) < endPair) {
      routing::passPairs(shared, pairs);
      pairs = partOf();
      routing::countPairs<false>(shared, pairs, localOf);
      routing::placePairs(shared, pairs, localOf, place);
    }
  }
  routing::writeExperts<Config::kTileRows, Config::kRowStep, Config::kCounters>(
      shared, args.tokens * Config::kPairs, block, blocks, args.offsets,
      reinterpret_cast<int4 *>(args.tiles), args.tile_count, args.counts);
}

} // namespace moe
