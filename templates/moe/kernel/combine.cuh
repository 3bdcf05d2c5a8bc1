//===- combine.cuh - the weighted sum of a token's experts ------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// out[m] = sum over k of weights[m, k] * partials[positions[m, k]], f32, in the
// order of k, + residual[m], rounded once. Positions of -1 are skipped; a token
// without any gets zeros. Zero experts, whose pairs have kIdentityPlace as
// their id, add the sum of their weights times x[m].
//
// Args, in order: partials [rows, kHidden], positions [tokens, kPairs],
//   topk_weights [tokens, kPairs] (absent where weights multiply x: each is 1),
//   int tokens, out [tokens, kHidden], residual [tokens, kHidden] (of the
//   output's type, null or out itself; absent in a layer without), addend
//   [pairs, kHidden] (null: none; absent without adapters), of which a row
//   joins the partial sums of its pair; in a layer with zero experts identity,
//   that is x, long long identity_row_stride, topk_ids [tokens, kPairs] and
//   add_identity (core/rank.cuh).
// Grid.x: tokens * kColumnBlocks; neighbouring CTAs share a token.
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
  MOE_REQUIRE_VALUE(Config, kPairs, "pairs of a token");
  MOE_REQUIRE_VALUE(Config, kHidden, "columns");
  MOE_REQUIRE_VALUE(Config, kColumnBlocks, "CTAs that share a token");
  MOE_REQUIRE_VALUE(Config, kPlacesEarly,
                    "the predecessor wrote neither positions nor weights");
  return true;
}

/// Dynamic shared memory of the kernel: none.
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
