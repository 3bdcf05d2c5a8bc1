//===- down_slices.cuh - second matmul and combine in slices ----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// out[m] = sum over k of topk_weights[m, k] * (lhs[r, :] * rhs[expert of r]^T +
// bias) with r = positions[m, k]. The result is bitwise equal to the result of
// two launches, grouped_matmul and combine. The kernel computes it slice by
// slice; a slice is kTileN columns of the result
// (moe/matmul/slices/stationary.cuh).
//
// The kernel is for many tokens, as long as all rows of lhs fit into the shared
// memory of all SMs at the same time. Each CTA then reads only the weights of
// the experts of its own rows. A CTA keeps at most kRows rows of lhs and
// computes the weighted sums of at most kTokens tokens.
//
// Args, in order. The condition for the presence of an argument is in brackets.
//   lhs: [rows, kK]
//   tiles: int4 {expert, first row, end row, 0}, as permute writes them, cut at
//     multiples of 8 rows except for the last tile of an expert
//   tile_count: int [3 + 2 * kBuffers], {number of tiles, unused, unused,
//     counters}; the counters are 0 on entry
//   rhs: moe::TensorMap by value, as in grouped_matmul, with boxes of kTileN
//     weight rows
//   float lhs_scale [if Quant has one]
//   float rhs_scale [if Quant has one]
//   bias: [kExperts, kN] [if kBias]
//   add_bias: see moe/core/rank.cuh [optional]
//   partials: [kBuffers, tokens * kPairs, kTileN], the buffers for slices
//   positions: int [tokens, kPairs]
//   topk_weights: float [tokens, kPairs]
//   int tokens
//   out: [tokens, kN]
//
// Grid.x: at most the number of CTAs that are resident at a time. The grid must
// be large enough that ceildiv(padded rows / 8, CTAs) * 8 <= kRows and
// ceildiv(tokens, CTAs) <= kTokens, where the rows of each expert are padded to
// a multiple of 8. A smaller grid writes NaN to all of out; the runtime does
// not launch one.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/concepts.cuh"
#include "moe/math/activation.cuh"
#include "moe/matmul/contract.cuh"
#include "moe/matmul/slices/stationary.cuh"

namespace moe {

template <class Config> constexpr bool checkDownSlicesConfig() {
  checkCommonConfig<Config>();
  MOE_REQUIRE_TYPE(Config, Input, "element type of lhs and rhs");
  MOE_REQUIRE_TYPE(Config, Result, "element type of the partial sums");
  MOE_REQUIRE_TYPE(Config, Output, "element type of the output");
  MOE_REQUIRE_TYPE(Config, Quant, "quantization policy");
  MOE_REQUIRE_TYPE(Config, Activation, "None, for the epilogue");
  MOE_REQUIRE_TYPE(Config, Mma, "engine");
  MOE_REQUIRE_TYPE(Config, Schedule,
                   "tile, pipeline stages, buffers and roles");
  MOE_REQUIRE_VALUE(Config, kN, "rows of rhs");
  MOE_REQUIRE_VALUE(Config, kK, "columns of lhs and rhs");
  MOE_REQUIRE_VALUE(Config, kExperts, "experts in rhs");
  MOE_REQUIRE_VALUE(Config, kPairs, "(token, expert) pairs per token");
  MOE_REQUIRE_VALUE(Config, kBias, "true if a bias is added");
  MOE_REQUIRE_VALUE(
      Config, kTilesEarly,
      "the row order is final before the predecessor launch ends");
  MOE_REQUIRE_VALUE(Config, kRows, "maximum number of rows per CTA");
  MOE_REQUIRE_VALUE(Config, kTokens, "maximum number of tokens per CTA");
  using Schedule = typename Config::Schedule;
  MOE_REQUIRE_VALUE(Schedule, kTileM, "rows per tile");
  MOE_REQUIRE_VALUE(Schedule, kTileN, "columns per slice");
  MOE_REQUIRE_VALUE(Schedule, kTileK, "elements along k per pipeline stage");
  MOE_REQUIRE_VALUE(Schedule, kStages, "pipeline stages");
  MOE_REQUIRE_VALUE(Schedule, kBuffers, "slices that are stored at a time");
  MOE_REQUIRE_VALUE(Schedule, kOtherWarpgroups,
                    "warpgroups that are not consumers");
  MOE_REQUIRE_VALUE(Schedule, kProducerRegisters,
                    "registers per producer thread");
  MOE_REQUIRE_VALUE(Schedule, kConsumerRegisters,
                    "registers per consumer thread");
  MOE_REQUIRE_VALUE(Schedule, kCtasPerSm, "resident CTAs per SM");
  static_assert(!Config::Activation::kGated, "the second matmul has no gate");
  static_assert(checkQuantPolicy<typename Config::Quant>());
  static_assert(checkEngine<typename Config::Mma>());
  static_assert(isWarpSpecialized<typename Config::Mma>,
                "slices need a warp-specialized engine");
  return true;
}

/// Returns the dynamic shared memory of the kernel in bytes.
template <class Config> constexpr int sharedBytes() {
  static_assert(checkDownSlicesConfig<Config>());
  return Stationary<Config>::kBytes;
}

template <class Config>
__device__ __forceinline__ void downSlices(const typename Config::Args &args) {
  static_assert(checkDownSlicesConfig<Config>());
  extern __shared__ __align__(1024) unsigned char moeSharedMemory[];
  stationary<Config>(args, ptx::sharedAddress(moeSharedMemory));
}

} // namespace moe
