//===- few.cuh - at most 32 pairs, routed by every CTA ----------*- C++ -*-===//
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
// Config: as for routing/token.cuh, and kLocalBegin, kLocalExperts, kThreads.
// Args: logits to given_weights_type, valid_tokens, those of place.cuh, tokens
// as in kernel route.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/types.cuh"
#include "moe/routing/place.cuh"
#include "moe/routing/token.cuh"

namespace moe::routing {

inline constexpr int kFewPairs = 32;
/// Rows of a tile: the weights of its expert are read once for all of them.
inline constexpr int kFewTileRows = 4;

/// Sorted rows of the pairs of one CTA's tokens.
struct FewPairs {
  int expert[kFewPairs];   ///< of a pair, of the layer, or -1
  float weight[kFewPairs]; ///< of a pair
  int rowToken[kFewPairs];
  int rowPair[kFewPairs];
  float rowWeight[kFewPairs];
  int4 tiles[kFewPairs]; ///< {expert, first row, end row, 0}
  int tileCount, rows;
};

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
                                         int valid, FewPairs &shared,
                                         Show show) {
  constexpr int kTopK = Config::kTopK, kPairs = kPairsOf<Config>;
  int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
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
/// by one warp; the caller synchronizes before and after.
template <class Config>
__device__ __forceinline__ void arrangeFew(int tokens, FewPairs &shared) {
  constexpr unsigned kAll = 0xffffffffu;
  int lane = int(threadIdx.x) % 32, pairs = tokens * kPairsOf<Config>;
  int local = -1;
  if (lane < pairs) {
    local = shared.expert[lane] - Config::kLocalBegin;
    if (shared.expert[lane] < 0 || local < 0 || local >= Config::kLocalExperts)
      local = -1;
  }
  int row = 0, rank = 0, own = 0;
#pragma unroll 4
  for (int other = 0; other < pairs; ++other) {
    int its = __shfl_sync(kAll, local, other);
    bool same = its == local, earlier = same && other < lane;
    row += (its >= 0 && its < local) || earlier;
    rank += earlier;
    own += same;
  }
  bool isFirst = local >= 0 && rank % kFewTileRows == 0;
  int firstRow = isFirst ? row : kFewPairs;
  int tile = 0;
#pragma unroll 4
  for (int other = 0; other < pairs; ++other)
    tile += __shfl_sync(kAll, firstRow, other) < row;
  if (isFirst)
    shared.tiles[tile] =
        make_int4(local, row, min(row + kFewTileRows, row - rank + own), 0);
  if (local >= 0) {
    shared.rowToken[row] = lane / kPairsOf<Config>;
    shared.rowPair[row] = lane;
    shared.rowWeight[row] = shared.weight[lane];
  }
  int tiles = __popc(__ballot_sync(kAll, isFirst));
  int rows = __popc(__ballot_sync(kAll, local >= 0));
  if (lane == 0) {
    shared.tileCount = tiles;
    shared.rows = rows;
  }
}

} // namespace moe::routing
