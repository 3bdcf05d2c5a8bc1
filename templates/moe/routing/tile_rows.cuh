//===- tile_rows.cuh - rows per tile of an expert ---------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each tile reads its expert's weights again, regardless of its number of rows.
// Therefore an engine whose time per tile is proportional to the tile's rows
// prefers tiles of equal size to full tiles followed by a short last tile.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/types.cuh"

namespace moe::routing {

/// Returns the number of rows per tile for an expert with `count` rows. All
/// tiles have that many rows, except the last tile, which may have fewer. The
/// number of tiles is the minimum for tiles of at most kTileRows rows. The
/// result is a multiple of kRowStep, and otherwise makes the tiles as equal as
/// possible. If kRowStep is kTileRows, all tiles except the last are full.
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
