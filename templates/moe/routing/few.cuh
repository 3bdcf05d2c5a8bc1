//===- few.cuh - at most 64 pairs, routed by every CTA ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The kernels `route_gate_up` and `down_combine`, which compute a layer for few
// tokens, do their own routing. Each CTA routes all tokens, one warp per token,
// and keeps the sorted pairs in shared memory. (Otherwise kernel `route` writes
// the routing result to global memory.) Thus no launch waits for a routing
// launch, and `down_combine` can determine the weights that it needs while
// `route_gate_up` still runs.
//
// Config: the members of moe/routing/token.cuh and moe/routing/place.cuh,
// kLocalExperts and kThreads.
//
// Args: the arguments `logits` through `given_weights_type` of kernel `route`,
// then valid_tokens (optional), tokens, the arguments of moe/routing/token.cuh
// and moe/routing/place.cuh, and local_begin (moe/core/rank.cuh).
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/rank.cuh"
#include "moe/core/types.cuh"
#include "moe/routing/place.cuh"
#include "moe/routing/token.cuh"

namespace moe::routing {

/// The maximum number of (token, expert) pairs that a CTA routes.
inline constexpr int kFewPairs = 64;
/// The maximum number of rows in a tile. An expert's weights are read once per
/// tile.
inline constexpr int kFewTileRows = 4;
/// The maximum number of rows per tile in the kernel of a Config. Ids that the
/// caller passes may repeat an expert for a token. The expert may then have
/// more rows than tokens, and thus more than one tile.
template <class Config>
inline constexpr int kTileRowsOf = minimum(Config::kTokens, kFewTileRows);

/// The pairs that one CTA has routed, and their sorted rows. kPairs: the
/// maximum number of pairs.
template <int kPairs> struct FewPairs {
  static_assert(kPairs >= 1 && kPairs <= kFewPairs);
  static constexpr int kWords = ceilDiv(kPairs, 32);
  int expert[kPairs];   ///< per pair: index of the expert in the layer, or -1
  float weight[kPairs]; ///< per pair: routing weight
  int rowToken[kPairs];
  int rowPair[kPairs];
  float rowWeight[kPairs];
  int4 rowTile[kPairs];    ///< per row: the tile, if one starts at the row
  int4 tiles[kPairs];      ///< {expert, first row, end row, 0}
  unsigned firsts[kWords]; ///< bit r is 1 if a tile starts at row r
  int tileCount, rows;
};

/// FewPairs for the maximum number of pairs of a Config.
template <class Config>
using FewPairsOf = FewPairs<Config::kTokens * kPairsOf<Config>>;

/// Returns the number of tokens that are routed: the first valid_tokens ones,
/// or all tokens if valid_tokens is null or absent.
template <bool kFresh, class Args>
__device__ __forceinline__ int validTokens(const Args &args) {
  int valid = args.tokens;
  if constexpr (requires { args.valid_tokens; })
    if (args.valid_tokens) {
      if constexpr (kFresh)
        valid = ptx::loadFresh(args.valid_tokens);
      else
        valid = *args.valid_tokens;
    }
  return max(0, min(valid, args.tokens));
}

/// Routes all tokens and stores their pairs in `shared`. All warps must call
/// it; each routes some of the tokens. show(pair, id, weight) is called once
/// for each pair. kFresh: the predecessor may still run, so loads bypass L1.
/// This is valid because the inputs were written before the predecessor
/// started.
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
        takeGivenIds<Config, kFresh>(args, token, lane, expert, shown);
        weight = takeGivenWeight<Config, kFresh>(args, token, lane);
      }
    }
    placeExperts<Config, kFresh>(args, token, lane, token < valid, expert,
                                 shown);
    weighShared<Config, kFresh>(args, token, lane, token < valid, weight);
    if (lane < kPairs) {
      shared.expert[pair] = expert;
      shared.weight[pair] =
          lane < kTopK ? scaledForOutput<Config>(weight) : weight;
      show(pair, shown, weight);
    }
  }
}

/// Sorts the pairs by local expert, then by pair index, and lists the tiles.
/// All threads must call it after a barrier. It ends with a barrier.
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
  // A warp finds the row of a pair by counting the pairs before it.
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
  int before = 0; // number of tiles that start in earlier mask words
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

/// Routes a single token in the first warp. choose() selects the experts first,
/// so that the CTA can start to copy expert weights. weigh() computes the
/// routing weights later, while these copies are in flight.
template <class Config, bool kFresh> struct FewOne {
  static constexpr int kPairs = kPairsOf<Config>;
  static_assert(kPairs <= 32,
                "a token must have at most 32 pairs, one per lane");
  TokenLogits<Config> logits;
  float maximum = 0.0f, sum = 1.0f, logit = 0.0f;
  int expert = -1; ///< as selected by routing, before placeExperts
  int shown = -1;
  int row = -1;
  bool isValid = false;

  template <class Show>
  __device__ __forceinline__ void choose(const typename Config::Args &args,
                                         int valid, FewPairsOf<Config> &shared,
                                         const Show &) {
    if (threadIdx.x >= 32)
      return;
    int lane = int(threadIdx.x);
    isValid = valid > 0;
    int place = -1;
    if (isValid) {
      if (hasLogits<Config>(args)) {
        if constexpr (!kIsGiven<typename Config::Select>) {
          logits.template load<kFresh>(args, 0, lane);
          float values[TokenLogits<Config>::kPerLane];
          takeValues(args, logits, 0, lane, values);
          if constexpr (kHasRoutingBias<Config>)
            sumValues<Config>(values, maximum, sum);
          chooseExperts<Config, kFresh>(args, values, maximum, sum, 0, lane,
                                        expert, logit);
        }
        place = shown = expert;
      } else {
        takeGivenIds<Config, kFresh>(args, 0, lane, place, shown);
      }
    }
    placeExperts<Config, kFresh>(args, 0, lane, isValid, place, shown);
    order(args, lane < kPairs * args.tokens ? place : -1, shared);
  }

  /// Assigns a row to each pair with a local expert. Rows are ordered by
  /// expert, then by pair. Each row is a tile.
  __device__ __forceinline__ void order(const typename Config::Args &args,
                                        int place, FewPairsOf<Config> &shared) {
    int lane = int(threadIdx.x), local = localExpertOf<Config>(args, place);
    // A pair whose expert is on another rank has local == -1. As an unsigned
    // value, -1 is the largest key, so such a pair sorts last.
    unsigned key = unsigned(local) << 5 | unsigned(lane);
    int before = 0;
#pragma unroll
    for (int other = 0; other < kPairs; ++other)
      before += __shfl_sync(0xffffffffu, key, other) < key;
    unsigned rows = __ballot_sync(0xffffffffu, local >= 0);
    if (lane < kPairs)
      shared.expert[lane] = place;
    if (local >= 0) {
      row = before;
      shared.rowToken[row] = 0;
      shared.rowPair[row] = lane;
      shared.tiles[row] = make_int4(local, row, row + 1, 0);
    }
    if (lane == 0)
      shared.tileCount = shared.rows = __popc(rows);
  }

  static __device__ __forceinline__ void arrange(const typename Config::Args &,
                                                 FewPairsOf<Config> &) {}

  template <class Show>
  __device__ __forceinline__ void weigh(const typename Config::Args &args,
                                        FewPairsOf<Config> &shared,
                                        const Show &show) {
    if (threadIdx.x >= 32)
      return;
    int lane = int(threadIdx.x);
    float weight = 0.0f;
    if (isValid) {
      if (hasLogits<Config>(args)) {
        if constexpr (!kIsGiven<typename Config::Select>) {
          float values[TokenLogits<Config>::kPerLane];
          takeValues(args, logits, 0, lane, values);
          if constexpr (!kHasRoutingBias<Config>)
            sumValues<Config>(values, maximum, sum);
          if constexpr (!kFindsLogits<Config>)
            logit = logits.of(args.logits_type, expert);
          weight = weighExpert<Config>(args, values, maximum, sum, lane, expert,
                                       logit);
        }
      } else {
        weight = takeGivenWeight<Config, kFresh>(args, 0, lane);
      }
    }
    weighShared<Config, kFresh>(args, 0, lane, isValid, weight);
    if (row >= 0)
      shared.rowWeight[row] =
          lane < Config::kTopK ? scaledForOutput<Config>(weight) : weight;
    if (lane < kPairs * args.tokens)
      show(lane, shown, weight);
  }
};

/// Routes several tokens, each in one warp. choose() computes the routing
/// weights together with the experts.
template <class Config, bool kFresh> struct FewTokens {
  template <class Show>
  static __device__ __forceinline__ void
  choose(const typename Config::Args &args, int valid,
         FewPairsOf<Config> &shared, const Show &show) {
    routeFew<Config, kFresh>(args, valid, shared, show);
  }
  static __device__ __forceinline__ void
  arrange(const typename Config::Args &args, FewPairsOf<Config> &shared) {
    arrangeFew<Config>(args, shared);
  }
  template <class Show>
  static __device__ __forceinline__ void
  weigh(const typename Config::Args &, FewPairsOf<Config> &, const Show &) {}
};

template <class Config, bool kFresh, bool kOne> struct FewRouteOf {
  using Type = FewTokens<Config, kFresh>;
};
template <class Config, bool kFresh> struct FewRouteOf<Config, kFresh, true> {
  using Type = FewOne<Config, kFresh>;
};

/// True if routing weights are available only after weigh and a barrier.
template <class Config>
inline constexpr bool kWeighsLater = Config::kTokens == 1;

/// The routing in a CTA of a few-token kernel: FewOne or FewTokens. All threads
/// call choose, synchronize, and then call arrange and weigh. show(pair, id,
/// weight) is called once for each pair.
template <class Config, bool kFresh>
using FewRoute =
    typename FewRouteOf<Config, kFresh, kWeighsLater<Config>>::Type;

/// A `show` that does nothing.
struct ShowNobody {
  __device__ __forceinline__ void operator()(int, int, float) const {}
};

} // namespace moe::routing
