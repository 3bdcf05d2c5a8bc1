//===- arrange_tokens.cuh - pairs sorted while they are routed --*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Arranges few tokens in the CTA, or in the cluster of CTAs, that also routes
// them. Each CTA keeps a bit mask of its tokens per expert. The CTAs exchange
// the number of set bits per mask. The rank of a pair among its expert's pairs
// is then a population count. This requires that a token's experts are
// distinct. Selected experts always are. Ids that the caller passes may repeat
// an expert; the first CTA then sorts all pairs alone
// (moe/routing/arrange.cuh).
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx_cluster.cuh"
#include "moe/core/types.cuh"
#include "moe/routing/place.cuh"
#include "moe/routing/tile_rows.cuh"

namespace moe::routing {

/// The shared memory of one CTA for its tokens.
template <class Config> struct TokenMasks {
  static constexpr int kLocal = Config::kLocalExperts;
  static constexpr int kWords = ceilDiv(Config::kBlockTokens, 32);
  static constexpr int kWarps = Config::kThreads / 32;
  /// Each CTA's counts per expert, in vectors of 8. The count after the last
  /// expert is nonzero if a token has an expert twice.
  static constexpr int kVectors = ceilDiv(kLocal + 1, 8);
  alignas(16) unsigned masks[kWords][kVectors * 8];
  alignas(16) unsigned short counts[Config::kCluster][kVectors * 8];
  int starts[kLocal];    ///< per expert: first row of this CTA's pairs
  unsigned sums[kWarps]; ///< per warp: rows and tiles of its experts
};

/// Returns the rank of this CTA in its cluster.
template <class Config> __device__ __forceinline__ int clusterRankOf() {
  if constexpr (Config::kCluster > 1)
    return ptx::clusterRank();
  else
    return 0;
}

/// Zeroes the masks. The caller synchronizes.
template <class Config>
__device__ __forceinline__ void clearMasks(TokenMasks<Config> &shared) {
  using Shared = TokenMasks<Config>;
  unsigned *flat = &shared.masks[0][0];
#pragma unroll 1
  for (int i = int(threadIdx.x); i < Shared::kWords * Shared::kVectors * 8;
       i += Config::kThreads)
    flat[i] = 0;
}

/// Sets the bit of the CTA's token t in the mask of local expert `local`.
/// Returns true if the bit was already set.
template <class Config>
__device__ __forceinline__ bool noteToken(TokenMasks<Config> &shared, int t,
                                          int local) {
  unsigned bit = 1u << t % 32;
  return atomicOr(&shared.masks[t / 32][local], bit) & bit;
}

/// Sends this CTA's number of tokens per expert to all CTAs of the cluster.
/// `twice`: a token of this CTA has an expert twice. All threads must call it
/// after they synchronized. On return the counts of all CTAs have arrived.
/// Returns true if no token of any CTA has an expert twice.
template <class Config>
__device__ __forceinline__ bool exchangeCounts(TokenMasks<Config> &shared,
                                               int rank, bool twice) {
  using Shared = TokenMasks<Config>;
  constexpr int kVectors = Shared::kVectors;
  if constexpr (Config::kCluster > 1)
    ptx::waitForCluster();
#pragma unroll 1
  for (int item = int(threadIdx.x); item < kVectors * Config::kCluster;
       item += Config::kThreads) {
    int vector = item % kVectors;
    unsigned counts[8] = {};
#pragma unroll
    for (int word = 0; word < Shared::kWords; ++word)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        uint4 masks = *reinterpret_cast<const uint4 *>(
            &shared.masks[word][vector * 8 + half * 4]);
        counts[half * 4] += unsigned(__popc(masks.x));
        counts[half * 4 + 1] += unsigned(__popc(masks.y));
        counts[half * 4 + 2] += unsigned(__popc(masks.z));
        counts[half * 4 + 3] += unsigned(__popc(masks.w));
      }
    if (vector == Shared::kLocal / 8)
#pragma unroll
      for (int i = 0; i < 8; ++i)
        if (i == Shared::kLocal % 8)
          counts[i] = twice;
    Vector16 packed;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      packed.words[i] = counts[2 * i] | counts[2 * i + 1] << 16;
    Vector16 *to =
        reinterpret_cast<Vector16 *>(&shared.counts[rank][vector * 8]);
    if constexpr (Config::kCluster > 1)
      ptx::storeToPeer(
          ptx::peerAddress(ptx::sharedAddress(to), item / kVectors), packed);
    else
      *to = packed;
  }
  if constexpr (Config::kCluster > 1) {
    ptx::arriveAtCluster();
    ptx::waitForCluster();
  } else {
    __syncthreads();
  }
  bool distinct = true;
#pragma unroll
  for (int cta = 0; cta < Config::kCluster; ++cta)
    distinct = distinct && shared.counts[cta][Shared::kLocal] == 0;
  return distinct;
}

/// Writes `offsets`, `tiles`, the tile count followed by zeros, and the pairs
/// per expert unless `countsOut` is null. It is called after exchangeCounts.
/// Each CTA writes a part of the arrays and stores the first rows of its own
/// pairs in `starts`. The function ends with a barrier. `pairs`: number of
/// pairs of all tokens; the tile list is zeroed up to the capacity for this
/// number.
template <class Config>
__device__ __forceinline__ void writeOrder(TokenMasks<Config> &shared, int rank,
                                           int pairs, int *offsets, int4 *tiles,
                                           int *tileCount, int *countsOut) {
  using Shared = TokenMasks<Config>;
  constexpr int kLocal = Shared::kLocal;
  constexpr int kEach = ceilDiv(kLocal, Config::kThreads);
  constexpr int kUsedWarps = ceilDiv(ceilDiv(kLocal, kEach), 32);
  constexpr int kTileRows = Config::kTileRows;
  int thread = int(threadIdx.x), lane = thread % 32;
  // A word holds the number of rows in its lower half and the number of tiles,
  // which is at most the number of rows, in its upper half.
  static_assert(Config::kCluster * Config::kBlockTokens * kPairsOf<Config> <=
                    65535,
                "rows and tiles of all experts must fit 16 bits");
  unsigned own[kEach], before[kEach], sum = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    int expert = thread * kEach + i;
    unsigned total = 0, earlier = 0;
    if (expert < kLocal)
#pragma unroll
      for (int cta = 0; cta < Config::kCluster; ++cta) {
        unsigned count = shared.counts[cta][expert];
        total += count;
        earlier += cta < rank ? count : 0;
      }
    before[i] = earlier;
    own[i] = total | (total + kTileRows - 1) / kTileRows << 16;
    sum += own[i];
  }
  unsigned through = sum;
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    unsigned other = __shfl_up_sync(0xffffffffu, through, distance);
    if (lane >= distance)
      through += other;
  }
  if (lane == 31)
    shared.sums[thread / 32] = through;
  __syncthreads();
  unsigned first = through - sum, all = 0;
#pragma unroll
  for (int warp = 0; warp < kUsedWarps; ++warp) {
    unsigned its = shared.sums[warp];
    first += warp < thread / 32 ? its : 0;
    all += its;
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    int expert = thread * kEach + i;
    if (expert < kLocal) {
      int row = int(first & 0xffffu), end = row + int(own[i] & 0xffffu);
      shared.starts[expert] = row + int(before[i]);
      if (expert % Config::kCluster == rank) {
        offsets[expert] = row;
        if (countsOut)
          countsOut[expert] = end - row;
        int each = rowsOfTile<kTileRows, Config::kRowStep>(end - row);
        int4 *to = tiles + (first >> 16);
#pragma unroll 1
        for (; row < end; row += each)
          *to++ = make_int4(expert, row, min(row + each, end), 0);
      }
    }
    first += own[i];
  }
  if (rank == 0 && thread <= Config::kCounters)
    tileCount[thread] = thread == 0 ? int(all >> 16) : 0;
  if (rank == Config::kCluster - 1 && thread == 0)
    offsets[kLocal] = int(all & 0xffffu);
  int capacity = min(pairs, (pairs + kTileRows - 1) / kTileRows + kLocal);
#pragma unroll 1
  for (int i = int(all >> 16) + rank * Config::kThreads + thread; i < capacity;
       i += Config::kCluster * Config::kThreads)
    tiles[i] = make_int4(0, 0, 0, 0);
  __syncthreads();
}

/// Returns the row of the pair of token t and local expert `local`, after
/// writeOrder.
template <class Config>
__device__ __forceinline__ int rowOf(const TokenMasks<Config> &shared, int t,
                                     int local) {
  int row = shared.starts[local];
#pragma unroll
  for (int word = 0; word < TokenMasks<Config>::kWords; ++word) {
    unsigned mask = shared.masks[word][local];
    unsigned earlier = word < t / 32    ? 0xffffffffu
                       : word == t / 32 ? (1u << t % 32) - 1
                                        : 0u;
    row += __popc(mask & earlier);
  }
  return row;
}

} // namespace moe::routing
