//===- tile_rows.cuh - the rows of an expert as tiles -----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A tile reads its expert's weight again however few rows it has. So an engine
// that multiplies a tile in time with its rows wants an expert's tiles alike,
// not full ones and a short last one.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/types.cuh"

namespace moe::routing {

/// The rows of all tiles but the last of an expert of `count` rows, which has
/// the rest: as few tiles of at most kTileRows rows as there can be, as alike
/// as steps of kRowStep rows allow. With one step a tile they are full.
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
