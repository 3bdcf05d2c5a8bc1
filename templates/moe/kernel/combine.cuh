//===- combine.cuh - the weighted sum of a token's experts ------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// out[m] = sum over k of weights[m, k] * partials[positions[m, k]] +
// residual[m]. The sum is f32, in the order of k, and rounded once. Pairs with
// position -1 add nothing, so the sum of a token without other pairs is 0. A
// zero expert returns its input: a pair whose id is kIdentityPlace adds its
// weight times x[m].
//
// Args, in order. The condition for the presence of an argument is in brackets.
//   partials: Partial [rows, kHidden]
//   positions: int [tokens, kPairs], the sorted row of each pair, or -1
//   topk_weights: float [tokens, kPairs] [absent if weights multiply x: each
//     weight is then 1]
//   int tokens
//   out: Output [tokens, kHidden]
//   residual: Output [tokens, kHidden], null or out itself [if the layer has a
//     residual]
//   addend: [pairs, kHidden], added to the partial sums of each pair; null: no
//     addend [if the layer has adapters]
//   identity: Input [tokens, kHidden], which is x [if there are zero experts]
//   long long identity_row_stride: in elements [if there are zero experts]
//   topk_ids: int [tokens, kPairs] [if there are zero experts]
//   add_identity: see moe/core/rank.cuh [if there are zero experts]
//
// Grid.x: tokens * kColumnBlocks. kColumnBlocks adjacent CTAs share a token.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/combine/token_sum.cuh"
#include "moe/core/concepts.cuh"
#include "moe/core/pdl.cuh"

namespace moe {

template <class Config> constexpr bool checkCombineConfig() {
  checkCommonConfig<Config>();
  MOE_REQUIRE_TYPE(Config, Partial, "element type of the partial sums");
  MOE_REQUIRE_TYPE(Config, Output, "element type of the output");
  MOE_REQUIRE_VALUE(Config, kPairs, "(token, expert) pairs per token");
  MOE_REQUIRE_VALUE(Config, kHidden, "columns");
  MOE_REQUIRE_VALUE(Config, kColumnBlocks, "CTAs that share a token");
  MOE_REQUIRE_VALUE(
      Config, kPlacesEarly,
      "positions and weights are final before the predecessor launch ends");
  return true;
}

/// Returns the dynamic shared memory of the kernel in bytes, 0.
template <class Config> constexpr int sharedBytes() {
  static_assert(checkCombineConfig<Config>());
  return 0;
}

template <class Config>
__device__ __forceinline__ void combine(const typename Config::Args &args) {
  static_assert(checkCombineConfig<Config>());
  if constexpr (!Config::kPlacesEarly)
    awaitPredecessor<Config>();
  int token = int(blockIdx.x) / Config::kColumnBlocks;
  int share = int(blockIdx.x) % Config::kColumnBlocks;
  bool isToken = token < args.tokens;
  TokenSum<Config> sum;
  sum.fetch(args, isToken ? token : 0);
  if constexpr (Config::kPlacesEarly)
    awaitPredecessor<Config>();
  if (isToken)
    sum.write(args, token, share,
              args.out + (long long)token * Config::kHidden);
}

} // namespace moe
