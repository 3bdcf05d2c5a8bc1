//===- tile_rows.cuh - the rows of an expert as tiles -----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every tile reads the weights of its expert again, however few rows it has.
// Therefore an engine whose time per tile is proportional to its rows prefers
// tiles of equal size over full tiles and a short last one.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/types.cuh"

namespace moe::routing {

/// Returns the rows of each tile of an expert with `count` rows, except the
/// last tile, which has the rest. The number of tiles of at most kTileRows rows
/// is minimal, and their sizes are as equal as multiples of kRowStep allow. If
/// kRowStep is kTileRows, tiles are full.
template <int kTileRows, int kRowStep>
__device__ __forceinline__ int rowsOfTile(int count) {
  static_assert(kRowStep > 0 && kTileRows % kRowStep == 0,
                "kRowStep must divide kTileRows");
  if constexpr (kRowStep == kTileRows) {
    return kTileRows;
  } else {
    unsigned rows = unsigned(max(count, 1));
    unsigned tiles = (rows + kTileRows - 1) / kTileRows;
    unsigned share = (rows + tiles - 1) / tiles;
    return int((share + kRowStep - 1) / kRowStep) * kRowStep;
  }
}

} // namespace moe::routing
