//===- few.cuh - at most 64 pairs, routed by every CTA ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The kernels of a few tokens take routing upon themselves: each CTA routes all
// tokens, a warp a token, and has the order of its pairs in shared memory, the
// same that kernel route writes for others. So nobody waits for a launch that
// routes, and the second of two kernels knows its weights while the first still
// runs.
//
// Config: as for routing/token.cuh, and kLocalExperts, kThreads.
// Args: logits to given_weights_type, valid_tokens, those of place.cuh, tokens
// as in kernel route, local_begin (core/rank.cuh).
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/rank.cuh"
#include "moe/core/types.cuh"
#include "moe/routing/place.cuh"
#include "moe/routing/token.cuh"

namespace moe::routing {

/// Most pairs of a CTA.
inline constexpr int kFewPairs = 64;
/// Rows of a tile at most: the weights of its expert are read once for all of
/// them.
inline constexpr int kFewTileRows = 4;
/// The same of a Config's kernel. A caller's ids may name an expert twice for a
/// token: then it has more tiles.
template <class Config>
inline constexpr int kTileRowsOf = minimum(Config::kTokens, kFewTileRows);

/// Sorted rows of the pairs of one CTA's tokens. kPairs: most of them.
template <int kPairs> struct FewPairs {
  static_assert(kPairs >= 1 && kPairs <= kFewPairs);
  static constexpr int kWords = ceilDiv(kPairs, 32);
  int expert[kPairs];   ///< of a pair, of the layer, or -1
  float weight[kPairs]; ///< of a pair
  int rowToken[kPairs];
  int rowPair[kPairs];
  float rowWeight[kPairs];
  int4 rowTile[kPairs];    ///< the tile that begins at a row
  int4 tiles[kPairs];      ///< {expert, first row, end row, 0}
  unsigned firsts[kWords]; ///< bits of the rows at which tiles begin
  int tileCount, rows;
};

/// The pairs of a Config's kernel.
template <class Config>
using FewPairsOf = FewPairs<Config::kTokens * kPairsOf<Config>>;

/// Tokens that take part.
template <bool kFresh, class Args>
__device__ __forceinline__ int validTokens(const Args &args) {
  if (!args.valid_tokens)
    return args.tokens;
  int valid;
  if constexpr (kFresh)
    valid = ptx::loadFresh(args.valid_tokens);
  else
    valid = *args.valid_tokens;
  return max(0, min(valid, args.tokens));
}

/// Pairs of all tokens into `shared`; called by all warps, of which each token
/// takes one. show(pair, id, weight) is called once for each pair. kFresh: the
/// predecessor has not ended; what is read here is older than it.
template <class Config, bool kFresh, class Show>
__device__ __forceinline__ void routeFew(const typename Config::Args &args,
                                         int valid, FewPairsOf<Config> &shared,
                                         Show show) {
  constexpr int kTopK = Config::kTopK, kPairs = kPairsOf<Config>;
  int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  if (threadIdx.x < FewPairsOf<Config>::kWords)
    shared.firsts[threadIdx.x] = 0;
#pragma unroll 1
  for (int token = warp; token < args.tokens; token += Config::kThreads / 32) {
    int expert = -1, shown = -1, pair = token * kPairs + lane;
    float weight = 0.0f;
    if (token < valid) {
      if (hasLogits<Config>(args)) {
        TokenLogits<Config> logits;
        logits.template load<kFresh>(args, token, lane);
        if constexpr (!kIsGiven<typename Config::Select>)
          routeToken<Config, kFresh>(args, logits, token, lane, expert, weight);
        shown = expert;
      } else {
        takeGiven<Config, kFresh>(args, token, lane, expert, shown, weight);
      }
    }
    placeToken<Config, kFresh>(args, token, lane, token < valid, expert, shown,
                               weight);
    if (lane < kPairs) {
      shared.expert[pair] = expert;
      shared.weight[pair] =
          lane < kTopK ? scaledForOutput<Config>(weight) : weight;
      show(pair, shown, weight);
    }
  }
}

/// Sorts the pairs by local expert, then by index, and lists the tiles. Called
/// by all threads, behind a barrier; ends with one.
template <class Config>
__device__ __forceinline__ void arrangeFew(const typename Config::Args &args,
                                           FewPairsOf<Config> &shared) {
  constexpr unsigned kAll = 0xffffffffu;
  constexpr int kWords = FewPairsOf<Config>::kWords;
  constexpr int kWarps = Config::kThreads / 32;
  constexpr int kTileRows = kTileRowsOf<Config>;
  int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  int pairs = args.tokens * kPairsOf<Config>;
  auto localOf = [&](int pair) {
    return localExpertOf<Config>(args, pair < pairs ? shared.expert[pair] : -1);
  };
  int local[kWords], rows = 0;
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    local[i] = localOf(i * 32 + lane);
    rows += __popc(__ballot_sync(kAll, local[i] >= 0));
  }
  // A warp finds the place of a pair by counting those before it.
  for (int pair = warp; pair < pairs; pair += kWarps) {
    int own = localOf(pair);
    int smaller = 0, rank = 0, same = 0;
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      smaller += __popc(__ballot_sync(kAll, local[i] >= 0 && local[i] < own));
      unsigned equal = __ballot_sync(kAll, local[i] == own);
      same += __popc(equal);
      rank +=
          __popc(__ballot_sync(kAll, local[i] == own && i * 32 + lane < pair));
    }
    if (own < 0 || lane != 0)
      continue;
    int row = smaller + rank;
    shared.rowToken[row] = pair / kPairsOf<Config>;
    shared.rowPair[row] = pair;
    shared.rowWeight[row] = shared.weight[pair];
    if (rank % kTileRows == 0) {
      shared.rowTile[row] =
          make_int4(own, row, min(row + kTileRows, smaller + same), 0);
      atomicOr(&shared.firsts[row / 32], 1u << row % 32);
    }
  }
  __syncthreads();
  int before = 0; // tiles of words before
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    unsigned firsts = shared.firsts[i];
    int row = i * 32 + int(threadIdx.x);
    if (threadIdx.x < 32 && firsts >> threadIdx.x & 1)
      shared.tiles[before + __popc(firsts & ((1u << threadIdx.x) - 1))] =
          shared.rowTile[row];
    before += __popc(firsts);
  }
  if (threadIdx.x == 0) {
    shared.tileCount = before;
    shared.rows = rows;
  }
  __syncthreads();
}

/// Routes all tokens and sorts their pairs, for a kernel that tells nobody.
/// Ends with a barrier.
template <class Config, bool kFresh>
__device__ __forceinline__ void
routeAndArrange(const typename Config::Args &args, FewPairsOf<Config> &shared) {
  int valid = validTokens<kFresh>(args);
  routeFew<Config, kFresh>(args, valid, shared, [](int, int, float) {});
  __syncthreads();
  arrangeFew<Config>(args, shared);
}

} // namespace moe::routing
