//===- down_slices.cuh - second matmul and combine in slices ----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// out[m] = sum over k of topk_weights[m, k] * (lhs[r, :] * rhs[expert of r]^T +
// bias) with r = positions[m, k]: what grouped_matmul and combine compute, to
// the same bit, in one launch (stationary.cuh). For so many tokens that the
// weights stream once, and so few that all rows of lhs lie in the shared memory
// of the GPU at a time: kRows rows and kTokens tokens a CTA.
//
// Args, in order (absent where marked): lhs [rows, kK], tiles int4 {expert,
//   first row, end row, 0} (as permute has them, of eights of rows but for the
//   last of an expert), tile_count [3 + 2 * kBuffers]: {tiles, unused, unused,
//   counters} (zeros when the kernel begins), rhs (a moe::TensorMap by value,
//   as grouped_matmul has it, of kTileN weight rows), float lhs_scale, float
//   rhs_scale (where Quant has them), bias [kExperts, kN] (kBias), add_bias
//   (core/rank.cuh), partials
//   [kBuffers, tokens * kPairs, kTileN], positions [tokens, kPairs],
//   topk_weights [tokens, kPairs], int tokens, out [tokens, kN].
// Grid.x: at most as many CTAs as are resident at a time; at least so many that
//   ceildiv(padded rows / 8, CTAs) * 8 <= kRows and ceildiv(tokens, CTAs) <=
//   kTokens, where an expert's rows are padded to a multiple of 8. With fewer,
//   out is NaN throughout: a runtime does not launch it then.
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
  MOE_REQUIRE_TYPE(Config, Schedule, "tile, stages, buffers and roles");
  MOE_REQUIRE_VALUE(Config, kN, "rows of rhs");
  MOE_REQUIRE_VALUE(Config, kK, "columns of lhs and rhs");
  MOE_REQUIRE_VALUE(Config, kExperts, "experts in rhs");
  MOE_REQUIRE_VALUE(Config, kPairs, "pairs of a token");
  MOE_REQUIRE_VALUE(Config, kBias, "whether a bias is added");
  MOE_REQUIRE_VALUE(Config, kTilesEarly, "the predecessor did not sort rows");
  MOE_REQUIRE_VALUE(Config, kRows, "rows that a CTA keeps at most");
  MOE_REQUIRE_VALUE(Config, kTokens, "tokens that a CTA sums at most");
  using Schedule = typename Config::Schedule;
  MOE_REQUIRE_VALUE(Schedule, kTileM, "rows of a tile");
  MOE_REQUIRE_VALUE(Schedule, kTileN, "columns of a slice");
  MOE_REQUIRE_VALUE(Schedule, kTileK, "depth of a stage");
  MOE_REQUIRE_VALUE(Schedule, kStages, "stages of the ring");
  MOE_REQUIRE_VALUE(Schedule, kBuffers, "slices that are stored at a time");
  MOE_REQUIRE_VALUE(Schedule, kOtherWarpgroups, "those that do not multiply");
  MOE_REQUIRE_VALUE(Schedule, kProducerRegisters, "of a thread of those");
  MOE_REQUIRE_VALUE(Schedule, kConsumerRegisters, "of a thread of the others");
  MOE_REQUIRE_VALUE(Schedule, kCtasPerSm, "CTAs of a multiprocessor");
  static_assert(!Config::Activation::kGated, "the second matmul has no gate");
  static_assert(checkQuantPolicy<typename Config::Quant>());
  static_assert(checkEngine<typename Config::Mma>());
  static_assert(isWarpSpecialized<typename Config::Mma>,
                "slices are made by a warp-specialized engine");
  return true;
}

/// Dynamic shared memory.
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
