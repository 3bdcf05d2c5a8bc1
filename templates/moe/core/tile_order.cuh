//===- tile_order.cuh - the map from CTA index to tile ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// CTAs start roughly in the order of their indices, so CTAs with adjacent
// indices share data in L2. Row tiles are traversed in groups of kGroupM.
// Within a group, the row tile index varies fastest and the column tile index
// slowest, so each weight tile is read from memory once per group. The last
// group has the remaining row tiles.
//
//===----------------------------------------------------------------------===//

#pragma once

namespace moe {

struct TileIndex {
  int m; ///< row tile: an index into the tile list
  int n; ///< column tile
};

/// Returns the tile of CTA `index` in a grid of kColumnTiles * rowTiles CTAs.
template <int kGroupM, int kColumnTiles>
__device__ __forceinline__ TileIndex tileOf(int index, int rowTiles) {
  if constexpr (kGroupM <= 1)
    return {index / kColumnTiles, index % kColumnTiles};
  constexpr int kPerGroup = kGroupM * kColumnTiles;
  int group = index / kPerGroup;
  int inGroup = index - group * kPerGroup;
  int first = group * kGroupM;
  int height = rowTiles - first < kGroupM ? rowTiles - first : kGroupM;
  if (height == kGroupM)
    return {first + inGroup % kGroupM, inGroup / kGroupM};
  return {first + inGroup % height, inGroup / height};
}

} // namespace moe
