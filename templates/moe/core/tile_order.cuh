//===- tile_order.cuh - which CTA computes which tile -----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// CTAs run in about the order of their index, so neighbours share the
// second-level cache. A group of kGroupM row tiles walks over all column tiles
// with the row tile fastest: each weight tile is then read from memory once for
// the group. The last group is as short as the number of row tiles asks for.
//
//===----------------------------------------------------------------------===//

#pragma once

namespace moe {

struct TileIndex {
  int m; ///< row tile: an entry of the tile list
  int n; ///< column tile
};

/// The tile of CTA `index` of a grid of columnTiles * rowTiles.
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
