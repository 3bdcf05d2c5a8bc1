//===- arrange.cuh - pairs sorted by expert ---------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The steps that compute the sorted row of each (token, expert) pair in one
// block of tokens: its position among all pairs, sorted by expert. The sort is
// stable and does not depend on timing. Kernel `permute` runs the steps with
// the histograms of all blocks; kernel `route` with kPermute runs them with its
// only block. In this file, experts are local indices, and pairs with expert -1
// have no row.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/types.cuh"
#include "moe/routing/tile_rows.cuh"

namespace moe::routing {

/// The shared memory of a CTA that arranges one block of tokens.
template <int kLocalExperts, int kThreads> struct Arrangement {
  /// The number of warps that rank pairs (ranking warps). It is limited so that
  /// their histograms fit into 16 KB.
  static constexpr int kWarps =
      maximum(1, minimum(kThreads / 32, 8192 / kLocalExperts));
  int before[kLocalExperts];      ///< rows of the expert in earlier blocks
  int total[kLocalExperts];       ///< rows of the expert in all blocks
  int offsets[kLocalExperts + 1]; ///< first row of the expert
  int tiles[kLocalExperts + 1];   ///< first tile of the expert
  /// Per ranking warp and expert: first the number of pairs, then the rank of
  /// the next pair among the expert's pairs in the block.
  unsigned short ranks[kWarps][kLocalExperts];
};

/// Divides `pairs` pairs among the ranking warps.
template <int kWarps> struct PairShare {
  int each; ///< number of pairs per warp, a multiple of 32
  int used; ///< number of warps that have pairs
  __device__ __forceinline__ explicit PairShare(int pairs)
      : each((pairs + kWarps * 32 - 1) / (kWarps * 32) * 32),
        used((pairs + each - 1) / max(1, each)) {}
};

/// Computes `offsets` and `tiles`, the exclusive prefix sums of each expert's
/// rows and tiles, from `total`. All threads must call it. The caller
/// synchronizes before and after.
template <int kTileRows, int kLocalExperts, int kThreads>
__device__ __forceinline__ void
scanExperts(Arrangement<kLocalExperts, kThreads> &shared) {
  if (threadIdx.x >= 32)
    return;
  constexpr int kPerLane = ceilDiv(kLocalExperts, 32);
  int lane = int(threadIdx.x);
  int rows = 0, tiles = 0;
#pragma unroll 1
  for (int i = 0; i < kPerLane; ++i) {
    int expert = lane * kPerLane + i;
    int count = expert < kLocalExperts ? shared.total[expert] : 0;
    rows += count;
    tiles += (count + kTileRows - 1) / kTileRows;
  }
  int ownRows = rows, ownTiles = tiles;
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    int otherRows = __shfl_up_sync(0xffffffffu, rows, distance);
    int otherTiles = __shfl_up_sync(0xffffffffu, tiles, distance);
    if (lane >= distance) {
      rows += otherRows;
      tiles += otherTiles;
    }
  }
  if (lane == 31) {
    shared.offsets[kLocalExperts] = rows;
    shared.tiles[kLocalExperts] = tiles;
  }
  rows -= ownRows;
  tiles -= ownTiles;
#pragma unroll 1
  for (int i = 0; i < kPerLane; ++i) {
    int expert = lane * kPerLane + i;
    if (expert < kLocalExperts) {
      shared.offsets[expert] = rows;
      shared.tiles[expert] = tiles;
      int count = shared.total[expert];
      rows += count;
      tiles += (count + kTileRows - 1) / kTileRows;
    }
  }
}

/// Computes in `ranks`, for each ranking warp and expert, the number of pairs
/// in earlier warps. Warp w owns the pairs [w * each, (w + 1) * each). With
/// kTotal, the block is the only one: the function also stores the pairs per
/// expert in `total` and zeroes `before`. localOf(pair) returns the local
/// expert of one of the block's pairs, or -1. The function ends with a barrier.
template <bool kTotal, int kLocalExperts, int kThreads, class LocalOf>
__device__ __forceinline__ void
countPairs(Arrangement<kLocalExperts, kThreads> &shared, int pairs,
           LocalOf localOf) {
  using Shared = Arrangement<kLocalExperts, kThreads>;
  int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  unsigned short *flat = &shared.ranks[0][0];
  PairShare<Shared::kWarps> share(pairs);
#pragma unroll 1
  for (int i = int(threadIdx.x); i < share.used * kLocalExperts; i += kThreads)
    flat[i] = 0;
  __syncthreads();
  if (warp < share.used) {
    int end = min(pairs, (warp + 1) * share.each);
#pragma unroll 1
    for (int base = warp * share.each; base < end; base += 32) {
      int pair = base + lane;
      int local = pair < end ? localOf(pair) : -1;
      unsigned peers = __match_any_sync(0xffffffffu, local);
      if (local >= 0 && __ffs(int(peers)) == lane + 1)
        shared.ranks[warp][local] += (unsigned short)__popc(peers);
      __syncwarp();
    }
  }
  __syncthreads();
#pragma unroll 1
  for (int expert = int(threadIdx.x); expert < kLocalExperts;
       expert += kThreads) {
    int sum = 0;
#pragma unroll 4
    for (int w = 0; w < share.used; ++w) {
      int count = shared.ranks[w][expert];
      shared.ranks[w][expert] = (unsigned short)sum;
      sum += count;
    }
    if constexpr (kTotal) {
      shared.total[expert] = sum;
      shared.before[expert] = 0;
    }
  }
  __syncthreads();
}

/// Computes the sorted row of each pair, after countPairs and scanExperts.
/// Calls place(pair, row) once for each pair; row is -1 if the pair has no
/// local expert.
template <int kLocalExperts, int kThreads, class LocalOf, class Place>
__device__ __forceinline__ void
placePairs(Arrangement<kLocalExperts, kThreads> &shared, int pairs,
           LocalOf localOf, Place place) {
  using Shared = Arrangement<kLocalExperts, kThreads>;
  int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  PairShare<Shared::kWarps> share(pairs);
  if (warp >= share.used)
    return;
  int end = min(pairs, (warp + 1) * share.each);
#pragma unroll 1
  for (int base = warp * share.each; base < end; base += 32) {
    int pair = base + lane;
    int local = pair < end ? localOf(pair) : -1;
    unsigned peers = __match_any_sync(0xffffffffu, local);
    int earlier = __popc(peers & ((1u << lane) - 1));
    int row = -1;
    if (local >= 0)
      row = shared.offsets[local] + shared.before[local] +
            shared.ranks[warp][local] + earlier;
    __syncwarp();
    if (local >= 0 && earlier == 0)
      shared.ranks[warp][local] += (unsigned short)__popc(peers);
    __syncwarp();
    if (pair < end)
      place(pair, row);
  }
}

/// Advances `before` past the pairs of one part of a block, so that the next
/// part's rows follow them. It is called after placePairs, which leaves the
/// counts of all pairs in `ranks`. All threads must call it. It synchronizes.
template <int kLocalExperts, int kThreads>
__device__ __forceinline__ void
passPairs(Arrangement<kLocalExperts, kThreads> &shared, int pairs) {
  PairShare<Arrangement<kLocalExperts, kThreads>::kWarps> share(pairs);
  __syncthreads();
#pragma unroll 1
  for (int expert = int(threadIdx.x); expert < kLocalExperts;
       expert += kThreads)
    shared.before[expert] += shared.ranks[share.used - 1][expert];
  __syncthreads();
}

/// Writes the tile list, and to tileCount the number of tiles followed by
/// kCounters zeros. The zeros initialize counters, among them the cursors from
/// which both matmuls draw tiles. CTA `block` of `blocks` CTAs writes its part
/// of the list. The list is zeroed up to the capacity for `pairs` pairs, so
/// that all its words are defined.
template <int kTileRows, int kRowStep, int kCounters, int kLocalExperts,
          int kThreads>
__device__ __forceinline__ void
writeTiles(const Arrangement<kLocalExperts, kThreads> &shared, int pairs,
           int block, int blocks, int4 *tiles, int *tileCount) {
  int thread = int(threadIdx.x);
  static_assert(kCounters >= 2 && kCounters < 32,
                "kCounters must be 2 (the cursors of both matmuls) to 31");
  if (block == 0 && thread <= kCounters)
    tileCount[thread] = thread == 0 ? shared.tiles[kLocalExperts] : 0;
  int warp = thread / 32, lane = thread % 32;
#pragma unroll 1
  for (int expert = block * (kThreads / 32) + warp; expert < kLocalExperts;
       expert += blocks * (kThreads / 32)) {
    int first = shared.offsets[expert], end = first + shared.total[expert];
    int rows = rowsOfTile<kTileRows, kRowStep>(end - first);
    int4 *to = tiles + shared.tiles[expert] + lane;
#pragma unroll 1
    for (int row = first + lane * rows; row < end; row += 32 * rows, to += 32)
      *to = make_int4(expert, row, min(row + rows, end), 0);
  }
  int capacity =
      min(pairs, (pairs + kTileRows - 1) / kTileRows + kLocalExperts);
#pragma unroll 1
  for (int i = shared.tiles[kLocalExperts] + block * kThreads + thread;
       i < capacity; i += blocks * kThreads)
    tiles[i] = make_int4(0, 0, 0, 0);
}

/// Writes the arrays that describe all experts: `offsets`, `tiles`,
/// `tileCount`, and `counts` unless it is null.
template <int kTileRows, int kRowStep, int kCounters, int kLocalExperts,
          int kThreads>
__device__ __forceinline__ void
writeExperts(const Arrangement<kLocalExperts, kThreads> &shared, int pairs,
             int block, int blocks, int *offsets, int4 *tiles, int *tileCount,
             int *counts) {
  int thread = int(threadIdx.x);
  if (block == 0) {
#pragma unroll 1
    for (int i = thread; i <= kLocalExperts; i += kThreads)
      offsets[i] = shared.offsets[i];
    if (counts)
#pragma unroll 1
      for (int i = thread; i < kLocalExperts; i += kThreads)
        counts[i] = shared.total[i];
  }
  writeTiles<kTileRows, kRowStep, kCounters>(shared, pairs, block, blocks,
                                             tiles, tileCount);
}

/// Computes the whole arrangement of at most 32 pairs; it replaces the four
/// steps countPairs, scanExperts, placePairs and writeExperts. Each lane of the
/// first warp places one pair, and each thread counts the pairs of its experts,
/// so no barrier is needed. All threads must call it.
template <int kTileRows, int kRowStep, int kCounters, int kLocalExperts,
          int kThreads, class LocalOf, class Place>
__device__ __forceinline__ void
arrangeFew(int pairs, LocalOf localOf, Place place, int *offsets, int4 *tiles,
           int *tileCount, int *counts) {
#pragma unroll 1
  for (int expert = int(threadIdx.x); expert <= kLocalExperts;
       expert += kThreads) {
    int before = 0, own = 0;
#pragma unroll 4
    for (int pair = 0; pair < pairs; ++pair) {
      int local = localOf(pair);
      before += local >= 0 && local < expert;
      own += local == expert;
    }
    offsets[expert] = before;
    if (counts && expert < kLocalExperts)
      counts[expert] = own;
  }
  if (threadIdx.x >= 32)
    return;
  constexpr unsigned kAll = 0xffffffffu;
  int lane = int(threadIdx.x);
  int local = lane < pairs ? localOf(lane) : -1;
  int row = 0, rank = 0, own = 0;
#pragma unroll 4
  for (int other = 0; other < pairs; ++other) {
    int its = __shfl_sync(kAll, local, other);
    bool same = its == local;
    bool earlier = same && other < lane;
    row += (its >= 0 && its < local) || earlier;
    rank += earlier;
    own += same;
  }
  int rows = rowsOfTile<kTileRows, kRowStep>(own);
  bool isFirst = local >= 0 && rank % rows == 0;
  int firstRow = isFirst ? row : pairs;
  int tile = 0;
#pragma unroll 4
  for (int other = 0; other < pairs; ++other)
    tile += __shfl_sync(kAll, firstRow, other) < row;
  int tileTotal = __popc(__ballot_sync(kAll, isFirst));
  if (isFirst)
    tiles[tile] = make_int4(local, row, min(row + rows, row - rank + own), 0);
  int capacity =
      min(pairs, (pairs + kTileRows - 1) / kTileRows + kLocalExperts);
  if (lane >= tileTotal && lane < capacity)
    tiles[lane] = make_int4(0, 0, 0, 0);
  static_assert(kCounters >= 2 && kCounters < 32,
                "kCounters must be 2 (the cursors of both matmuls) to 31");
  if (lane <= kCounters)
    tileCount[lane] = lane == 0 ? tileTotal : 0;
  if (lane < pairs)
    place(lane, local >= 0 ? row : -1);
}

} // namespace moe::routing
