//===- batch.cuh - tiles of rows grouped by expert --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The input rows are already grouped by expert: each expert has `tokens` slots,
// of which the first expert_num_tokens[expert] hold rows. Rows are not sorted.
// One CTA divides each expert's rows into tiles, as kernel `permute` does.
//
// Args, in order:
//   expert_num_tokens: int [E_local], the number of rows per expert, clamped to
//     [0, tokens]
//   int tokens: number of slots per expert
//   tiles: int4 {expert, first row, end row, 0}, written
//   tile_count: int [3], written as {number of tiles, 0, 0}
//
// Grid: 1.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/concepts.cuh"
#include "moe/core/pdl.cuh"
#include "moe/core/types.cuh"
#include "moe/routing/arrange.cuh"

namespace moe {

template <class Config> constexpr bool checkBatchConfig() {
  checkCommonConfig<Config>();
  MOE_REQUIRE_VALUE(Config, kLocalExperts, "experts of this rank");
  MOE_REQUIRE_VALUE(Config, kTileRows, "rows per tile of the matmuls");
  MOE_REQUIRE_VALUE(Config, kRowStep, "granularity of rows per tile");
  return true;
}

/// Returns the dynamic shared memory of the kernel in bytes, 0.
template <class Config> constexpr int sharedBytes() {
  static_assert(checkBatchConfig<Config>());
  return 0;
}

template <class Config>
__device__ __forceinline__ void batch(const typename Config::Args &args) {
  static_assert(checkBatchConfig<Config>());
  constexpr int kLocal = Config::kLocalExperts;
  constexpr int kThreads = Config::kThreads;
  __shared__ routing::Arrangement<kLocal, kThreads> shared;

  awaitPredecessor<Config>();

  int thread = int(threadIdx.x);
#pragma unroll 1
  for (int expert = thread; expert < kLocal; expert += kThreads)
    shared.total[expert] =
        max(0, min(args.expert_num_tokens[expert], args.tokens));
  __syncthreads();
  routing::scanExperts<Config::kTileRows>(shared);
  __syncthreads();
  // Replaces the offsets that scanExperts computed for rows without gaps. Here,
  // an expert's rows start at its first slot.
#pragma unroll 1
  for (int expert = thread; expert < kLocal; expert += kThreads)
    shared.offsets[expert] = expert * args.tokens;
  __syncthreads();
  routing::writeTiles<Config::kTileRows, Config::kRowStep, 2>(
      shared, args.tokens * kLocal, 0, 1, reinterpret_cast<int4 *>(args.tiles),
      args.tile_count);
}

} // namespace moe
