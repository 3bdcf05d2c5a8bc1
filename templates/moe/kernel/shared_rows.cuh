//===- shared_rows.cuh - rows of experts that all tokens take ---*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The MLP of shared experts: row t is token t, of one expert. Each CTA places
// as many tokens as it has threads; the first one cuts the rows into tiles, as
// permute does.
//
// Args, in order: valid_tokens [1] (null; absent), shared_gate [tokens], any
//   float type (absent: weights of 1), shared_gate_type, int tokens, tiles int4
//   {0, first row, end row, 0}, tile_count [3]: {tiles, 0, 0}, offsets [2]: {0,
//   rows}, positions [tokens]: the row or -1, topk_weights [tokens]. Grid:
//   ceil(tokens / kThreads).
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
  MOE_REQUIRE_VALUE(Config, kTileRows, "rows of a tile of the matmuls");
  MOE_REQUIRE_VALUE(Config, kRowStep, "rows by which tiles may differ");
  return true;
}

/// Dynamic shared memory of the kernel: none.
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
  // No word of the list is ever undefined.
  const int capacity =
      min(args.tokens, (args.tokens + kTileRows - 1) / kTileRows + 1);
  int4 *tiles = reinterpret_cast<int4 *>(args.tiles);
#pragma unroll 1
  for (int i = thread; i < capacity; i += kThreads)
    tiles[i] = i < count ? make_int4(0, i * each, min((i + 1) * each, rows), 0)
                         : make_int4(0, 0, 0, 0);
}

} // namespace moe
