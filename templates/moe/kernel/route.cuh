//===- route.cuh - logits to experts, weights and positions -----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Routes tokens. One CTA routes a block of tokens (moe/routing/blocks.cuh); a
// warp routes one token at a time. It scores, selects and normalizes, or reads
// the ids and weights that the caller passes. The pairs are then handled in one
// of three ways:
//   By default, the pairs of the block are counted per expert for kernel
//     `permute`.
//   With kPermute, the CTAs of the grid, which are one cluster of kCluster,
//     sort all pairs themselves. Each CTA routes an even share of the tokens
//     (moe/routing/arrange_tokens.cuh).
//   If the kernel is only a part of a layer, nothing is counted.
//
// Args, in order. The condition for the presence of an argument is in brackets.
//   const void *logits: [tokens, E]; null if the caller passes ids and weights
//   ElementCode logits_type: F32, F16 or BF16
//   const void *given_ids: [tokens, kTopK]
//   ElementCode given_ids_type: I32 or I64
//   const void *given_weights: [tokens, kTopK]
//   ElementCode given_weights_type: F32, F16 or BF16
//   valid_tokens: int [1], the number of tokens that are routed, or null
//     [optional]
//   int tokens
//   the optional arguments of moe/routing/token.cuh and moe/routing/place.cuh
//   local_begin: see moe/core/rank.cuh [optional]
//   topk_ids: int [tokens, kPairsOf], written
//   topk_weights: float [tokens, kPairsOf], written
//   ids, weights: outputs for the caller, may be null [optional in a part of a
//     layer]
//   block_counts: int [blocks, kPlacesOf], written [absent with kPermute and in
//     a part of a layer]
//   rows, positions, offsets, tiles, tile_count, counts (may be null): as in
//     permute.cuh [if kPermute]
//   positions: int [tokens, kPairsOf], written: the pair's own index if its
//     expert is local to this rank, else -1 [optional in a part of a layer]
// With a Scaling, the CTAs after the routing CTAs quantize x at the same time
// (moe/kernel/quantize.cuh; not DynamicTensor). Args then continue with:
//   input: Input [tokens, kColumns]
//   long long input_row_stride: in elements
//   static_scale: float [kScales] [if StaticTensor]
//   data, scale: as in quantize.cuh
// Grid.x: one CTA per block, or kCluster with kPermute. With a Scaling, the
// grid of kernel `quantize` is added, rounded up to whole clusters.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/concepts.cuh"
#include "moe/core/pdl.cuh"
#include "moe/core/rank.cuh"
#include "moe/core/types.cuh"
#include "moe/math/score.cuh"
#include "moe/quant/emulate_rows.cuh"
#include "moe/routing/arrange.cuh"
#include "moe/routing/arrange_tokens.cuh"
#include "moe/routing/blocks.cuh"
#include "moe/routing/normalize.cuh"
#include "moe/routing/place.cuh"
#include "moe/routing/select.cuh"
#include "moe/routing/token.cuh"

namespace moe {

template <class Config> constexpr bool checkRouteConfig() {
  checkCommonConfig<Config>();
  MOE_REQUIRE_TYPE(Config, Score, "score policy");
  MOE_REQUIRE_TYPE(Config, Select, "selection policy");
  MOE_REQUIRE_TYPE(Config, Normalize, "normalization policy");
  MOE_REQUIRE_VALUE(Config, kExperts, "experts of the layer");
  MOE_REQUIRE_VALUE(Config, kTopK, "experts chosen for a token");
  MOE_REQUIRE_VALUE(Config, kBlockTokens, "minimum number of tokens per CTA");
  MOE_REQUIRE_VALUE(Config, kMostBlocks,
                    "maximum number of blocks; 0 is no maximum");
  MOE_REQUIRE_VALUE(Config, kPermute, "true if the CTAs also permute");
  MOE_REQUIRE_VALUE(Config, kCluster, "CTAs that permute together");
  MOE_REQUIRE_VALUE(Config, kTileRows, "rows of a tile, used with kPermute");
  MOE_REQUIRE_VALUE(Config, kRowStep, "granularity of rows per tile");
  MOE_REQUIRE_VALUE(Config, kCounters, "zeros after the number of tiles");
  MOE_REQUIRE_VALUE(Config, kLocalExperts, "experts of this rank");
  static_assert(Config::kTopK >= 1 && routing::kPairsOf<Config> <= 32 &&
                    Config::kTopK <= Config::kExperts,
                "kTopK must be 1 to kExperts, with at most 32 pairs per token");
  static_assert(Config::kExperts >= 1 && Config::kExperts <= 1024,
                "kExperts must be 1 to 1024");
  static_assert(Config::kMostBlocks == 0 || !Config::kPermute,
                "kMostBlocks must be 0 with kPermute");
  static_assert(Config::kCluster >= 1 && Config::kCluster <= 8 &&
                    (Config::kPermute || Config::kCluster == 1),
                "kCluster must be 1 to 8, and 1 without kPermute");
  static_assert(
      !Config::kPermute ||
          Config::kCluster * Config::kBlockTokens * routing::kPairsOf<Config> <=
              32767,
      "pairs of kCluster * kBlockTokens tokens must be at most 32767");
  static_assert(checkScorePolicy<typename Config::Score>());
  static_assert(checkSelectPolicy<typename Config::Select>());
  static_assert(checkNormalizePolicy<typename Config::Normalize>());
  if constexpr (requires { typename Config::Scaling; }) {
    MOE_REQUIRE_TYPE(Config, Input, "element type of x");
    MOE_REQUIRE_VALUE(Config, kColumns, "columns of x");
    MOE_REQUIRE_VALUE(Config, kScales, "static scales");
    MOE_REQUIRE_VALUE(Config, kBlockRows, "rows per CTA");
    detail::checkQuantizedColumns<Config>();
  }
  return true;
}

/// Returns the dynamic shared memory of the kernel in bytes, 0.
template <class Config> constexpr int sharedBytes() {
  static_assert(checkRouteConfig<Config>());
  return 0;
}

namespace detail {

/// Returns true if the pairs of each block are counted for kernel `permute`.
template <class Config> constexpr bool countsPairs() {
  return requires(const typename Config::Args &args) { args.block_counts; };
}

template <class Config, bool kPermute> struct RouteShared;

template <class Config> struct RouteShared<Config, false> {
  int counts[countsPairs<Config>() ? routing::kPlacesOf<Config> : 1];
};

template <class Config> struct RouteShared<Config, true> {
  /// The local expert of each of the CTA's pairs, or -1.
  short ids[Config::kBlockTokens * routing::kPairsOf<Config>];
  union {
    routing::TokenMasks<Config> masks;
    routing::Arrangement<Config::kLocalExperts, Config::kThreads> arrangement;
  };
};

/// Sorts the pairs of all tokens by expert; the CTAs of the cluster share the
/// work. If isFew, the first CTA sorts alone. `rank`: rank of the CTA in the
/// cluster. `twice`: a token of this CTA has an expert twice. The CTA must have
/// synchronized before.
template <class Config>
__device__ __forceinline__ void
arrangeRouted(const typename Config::Args &args,
              RouteShared<Config, true> &shared, int rank, int firstToken,
              int blockTokens, bool isFew, bool twice) {
  constexpr int kPairs = routing::kPairsOf<Config>;
  constexpr int kLocal = Config::kLocalExperts;
  constexpr int kTileRows = Config::kTileRows;
  int4 *tiles = reinterpret_cast<int4 *>(args.tiles);
  auto place = [&](int pair, int row) {
    args.positions[pair] = row;
    if (row >= 0)
      args.rows[row] = pair;
  };
  int pairs = args.tokens * kPairs;
  if (isFew) {
    if constexpr (Config::kCluster > 1)
      ptx::waitForCluster();
    if (rank == 0)
      routing::arrangeFew<kTileRows, Config::kRowStep, Config::kCounters,
                          kLocal, Config::kThreads>(
          pairs, [&](int pair) { return int(shared.ids[pair]); }, place,
          args.offsets, tiles, args.tile_count, args.counts);
    return;
  }
  if (routing::exchangeCounts(shared.masks, rank, twice)) {
    routing::writeOrder(shared.masks, rank, pairs, args.offsets, tiles,
                        args.tile_count, args.counts);
    int firstPair = firstToken * kPairs;
#pragma unroll 1
    for (int pair = int(threadIdx.x); pair < blockTokens * kPairs;
         pair += Config::kThreads) {
      int local = shared.ids[pair];
      place(firstPair + pair,
            local < 0 ? -1
                      : routing::rowOf(shared.masks, pair / kPairs, local));
    }
    return;
  }
  if (rank != 0)
    return;
  __syncthreads();
  auto localOf = [&](int pair) {
    return localExpertOf<Config>(args, args.topk_ids[pair]);
  };
  routing::countPairs<true>(shared.arrangement, pairs, localOf);
  routing::scanExperts<kTileRows>(shared.arrangement);
  __syncthreads();
  routing::placePairs(shared.arrangement, pairs, localOf, place);
  routing::writeExperts<kTileRows, Config::kRowStep, Config::kCounters>(
      shared.arrangement, pairs, 0, 1, args.offsets, tiles, args.tile_count,
      args.counts);
}

/// Stores a pair's expert and weight for later kernels, and its id and weight
/// in the outputs `ids` and `weights` for the caller.
template <class Config>
__device__ __forceinline__ void storePair(const typename Config::Args &args,
                                          long long pair, int lane, int expert,
                                          int shown, float weight) {
  args.topk_ids[pair] = expert;
  args.topk_weights[pair] =
      lane < Config::kTopK ? routing::scaledForOutput<Config>(weight) : weight;
  if constexpr (requires { args.ids; })
    if (args.ids)
      args.ids[pair] = shown;
  if constexpr (requires { args.weights; })
    if (args.weights)
      args.weights[pair] = weight;
}

/// Routes a token. Each lane receives the expert of one of the token's pairs,
/// the id for the output `ids`, and the weight. kLoaded: `logits` already holds
/// the token's logits.
template <class Config, bool kLoaded>
__device__ __forceinline__ void routePair(const typename Config::Args &args,
                                          routing::TokenLogits<Config> &logits,
                                          int token, int lane, int &expert,
                                          int &shown, float &weight) {
  if (routing::hasLogits<Config>(args)) {
    if constexpr (!kLoaded)
      logits.load(args, token, lane);
    if constexpr (!routing::kIsGiven<typename Config::Select>)
      routing::routeToken(args, logits, token, lane, expert, weight);
    shown = expert;
  } else {
    routing::takeGivenIds<Config, false>(args, token, lane, expert, shown);
    weight = routing::takeGivenWeight<Config, false>(args, token, lane);
  }
}

/// Zeroes the counts per expert in shared memory, if pairs are counted for
/// kernel `permute`.
template <class Config, class Shared>
__device__ __forceinline__ void clearCounts(Shared &shared) {
  if constexpr (countsPairs<Config>()) {
#pragma unroll 1
    for (int e = int(threadIdx.x); e < routing::kPlacesOf<Config>;
         e += Config::kThreads)
      shared.counts[e] = 0;
  }
}

} // namespace detail

template <class Config>
__device__ __forceinline__ void route(const typename Config::Args &args) {
  static_assert(checkRouteConfig<Config>());
  constexpr int kPairs = routing::kPairsOf<Config>;
  constexpr int kPlaces = routing::kPlacesOf<Config>;
  constexpr int kWarps = Config::kThreads / 32;
  int blockSize = routing::blockTokensOf<Config>(args.tokens);
  if constexpr (requires { typename Config::Scaling; }) {
    int routes =
        Config::kPermute ? Config::kCluster : ceilDiv(args.tokens, blockSize);
    if (int(blockIdx.x) >= routes) {
      awaitPredecessor<Config>();
      detail::quantizeOrEmulateRows<Config>(args, args.tokens,
                                            int(blockIdx.x) - routes);
      return;
    }
  }
  __shared__ detail::RouteShared<Config, Config::kPermute> shared;
  int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;

  int block = int(blockIdx.x), firstToken, blockTokens;
  // True if one CTA sorts the pairs faster than several CTAs exchange counts.
  bool isFew = false;
  if constexpr (Config::kPermute) {
    isFew = args.tokens * kPairs <= 32 && args.tokens <= Config::kBlockTokens;
    int share = isFew ? args.tokens
                      : (args.tokens + Config::kCluster - 1) / Config::kCluster;
    block = routing::clusterRankOf<Config>();
    firstToken = min(block * share, args.tokens);
    blockTokens = min(share, args.tokens - firstToken);
    routing::clearMasks(shared.masks);
    // A CTA must have started before another CTA writes to its shared memory.
    if constexpr (Config::kCluster > 1)
      ptx::arriveAtCluster();
  } else {
    firstToken = block * blockSize;
    blockTokens = min(blockSize, args.tokens - firstToken);
    detail::clearCounts<Config>(shared);
  }
  __syncthreads();
  awaitPredecessor<Config>();

  int valid = args.tokens;
  if constexpr (requires { args.valid_tokens; })
    if (args.valid_tokens)
      valid = *args.valid_tokens;
  // The next token's logits are loaded while the current token is routed, if
  // registers suffice for two sets of logits.
  constexpr bool kAhead =
      Config::kExperts <= 256 &&
      !(Config::Select::kGrouped && routing::kHasRoutingBias<Config>);
  routing::TokenLogits<Config> next;
  auto loadNext = [&](int t) {
    if (kAhead && routing::hasLogits<Config>(args) && t < blockTokens)
      next.load(args, firstToken + t, lane);
  };
  loadNext(warp);
  bool twice = false;
#pragma unroll 1
  for (int t = warp; t < blockTokens; t += kWarps) {
    int token = firstToken + t;
    routing::TokenLogits<Config> logits = next;
    loadNext(t + kWarps);
    int expert = -1, shown = -1;
    float weight = 0.0f;
    long long pair = (long long)token * kPairs + lane;
    if (token < valid)
      detail::routePair<Config, kAhead>(args, logits, token, lane, expert,
                                        shown, weight);
    routing::placeExperts<Config, false>(args, token, lane, token < valid,
                                         expert, shown);
    routing::weighShared<Config, false>(args, token, lane, token < valid,
                                        weight);
    if (lane < kPairs) {
      if constexpr (Config::kPermute) {
        int local = localExpertOf<Config>(args, expert);
        shared.ids[t * kPairs + lane] = short(local);
        if (local >= 0 && !isFew)
          twice |= routing::noteToken(shared.masks, t, local);
      } else if constexpr (detail::countsPairs<Config>()) {
        if (expert >= 0)
          atomicAdd(&shared.counts[expert], 1);
      } else if constexpr (requires { args.positions; }) {
        args.positions[pair] =
            localExpertOf<Config>(args, expert) >= 0 ? int(pair) : -1;
      }
      detail::storePair<Config>(args, pair, lane, expert, shown, weight);
    }
  }

  if constexpr (detail::countsPairs<Config>()) {
    __syncthreads();
#pragma unroll 1
    for (int e = int(threadIdx.x); e < kPlaces; e += Config::kThreads)
      args.block_counts[(long long)blockIdx.x * kPlaces + e] = shared.counts[e];
  } else if constexpr (Config::kPermute) {
    detail::arrangeRouted<Config>(args, shared, block, firstToken, blockTokens,
                                  isFew, __syncthreads_or(twice));
  }
}

} // namespace moe
