//===- shared_rows.cuh - rows of experts that all tokens use ----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Prepares the matmuls of the shared experts' MLP: row t is token t, and all
// rows belong to one expert. Each thread places one token. The first CTA also
// divides the rows into tiles, as kernel `permute` does.
//
// Args, in order. The condition for the presence of an argument is in brackets.
//   valid_tokens: int [1], the number of tokens that have a row, or null
//     [optional]
//   int tokens
//   shared_gate: [tokens], F32, F16 or BF16 [optional; without it weights are
//     1]
//   shared_gate_type: ElementCode of shared_gate [if there is a shared_gate]
//   tiles: int4 {0, first row, end row, 0}, written
//   tile_count: int [3], written as {number of tiles, 0, 0}
//   offsets: int [2], written as {0, rows}
//   positions: int [tokens], written: the token's row, or -1
//   topk_weights: float [tokens], written
//
// Grid: ceil(tokens / kThreads).
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/concepts.cuh"
#include "moe/core/pdl.cuh"
#include "moe/core/types.cuh"
#include "moe/math/score.cuh"
#include "moe/routing/arrange.cuh"

namespace moe {

template <class Config> constexpr bool checkSharedRowsConfig() {
  checkCommonConfig<Config>();
  MOE_REQUIRE_VALUE(Config, kTileRows, "rows per tile of the matmuls");
  MOE_REQUIRE_VALUE(Config, kRowStep, "granularity of rows per tile");
  return true;
}

/// Returns the dynamic shared memory of the kernel in bytes, 0.
template <class Config> constexpr int sharedBytes() {
  static_assert(checkSharedRowsConfig<Config>());
  return 0;
}

template <class Config>
__device__ __forceinline__ void sharedRows(const typename Config::Args &args) {
  static_assert(checkSharedRowsConfig<Config>());
  constexpr int kThreads = Config::kThreads, kTileRows = Config::kTileRows;
  awaitPredecessor<Config>();
  int rows = args.tokens;
  if constexpr (requires { args.valid_tokens; })
    if (args.valid_tokens)
      rows = max(0, min(*args.valid_tokens, args.tokens));
  const int thread = int(threadIdx.x);
  const int token = int(blockIdx.x) * kThreads + thread;
  if (token < args.tokens) {
    float weight = token < rows ? 1.0f : 0.0f;
    if constexpr (requires { args.shared_gate; })
      if (token < rows)
        weight = routing::weightOfGate(
            loadFloat<false>(args.shared_gate, args.shared_gate_type, token));
    args.positions[token] = token < rows ? token : -1;
    args.topk_weights[token] = weight;
  }
  if (blockIdx.x > 0)
    return;
  const int each = routing::rowsOfTile<kTileRows, Config::kRowStep>(rows);
  const int count = (rows + each - 1) / each;
  if (thread < 2)
    args.offsets[thread] = thread == 0 ? 0 : rows;
  if (thread < 3)
    args.tile_count[thread] = thread == 0 ? count : 0;
  // Entries up to the capacity are zeroed, so that every word of the list is
  // defined.
  const int capacity =
      min(args.tokens, (args.tokens + kTileRows - 1) / kTileRows + 1);
  int4 *tiles = reinterpret_cast<int4 *>(args.tiles);
#pragma unroll 1
  for (int i = thread; i < capacity; i += kThreads)
    tiles[i] = i < count ? make_int4(0, i * each, min((i + 1) * each, rows), 0)
                         : make_int4(0, 0, 0, 0);
}

} // namespace moe
