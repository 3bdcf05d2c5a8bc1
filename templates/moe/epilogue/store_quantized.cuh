//===- store_quantized.cuh - staged rows, quantized -------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The last step of storeTile where columns of the result share a scale that
// follows from them, or where values are emulated: the tile lies in shared
// memory as f32 by then, and has whole groups. A thread takes 8 neighbours of a
// row, and those that share a scale are lanes of a warp, as in kernel quantize,
// whose bits these are.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx.cuh"
#include "moe/core/types.cuh"
#include "moe/epilogue/store_chunk.cuh"
#include "moe/quant/emulated.cuh"
#include "moe/quant/scaling.cuh"

namespace moe {

/// Lanes with 8 columns each that share a scale of a Config's result; 1 where
/// a given one is all that there is.
template <class Config> constexpr int lanesOfScale() {
  using Scaling = typename Config::Scaling;
  if constexpr (emulatesResult<Config>)
    return quant::kLanesOfScale<Scaling>;
  else
    return 128 / 8;
}

/// The scales of row `firstRow` of a result of so many columns; null where it
/// has none of groups.
template <class Config, int kColumns>
__device__ __forceinline__ float *
storedScales(const typename Config::Args &args, int firstRow) {
  if constexpr (quantizesGroups<Config>)
    return args.scale + (long long)firstRow * ceilDiv(kColumns, 128);
  else
    return nullptr;
}

/// Stores rows [0, rows) of the tile that lies at `shared` (S: Staging) and
/// begins at column firstColumn. data, scales: of row 0, see storeTile. outer:
/// see inverseOfScale. Called by all threads.
template <class Config, class S, class Stored>
__device__ __forceinline__ void storeQuantized(unsigned shared, int rows,
                                               int firstColumn, Stored *data,
                                               float *scales, float outer) {
  constexpr int kWide = 8;
  constexpr int kLanes = lanesOfScale<Config>();
  constexpr int kPerRow = S::kTileColumns / kWide;
  static_assert(32 % kLanes == 0,
                "values that share a scale must be lanes of one warp");
  static_assert(kPerRow % kLanes == 0,
                "a tile must hold whole groups of columns");
  static_assert(S::kColumns % kWide == 0, "rows must be whole pieces of 8");
  // All lanes go on together, so that those of a group may ask each other.
#pragma unroll 1
  for (int base = 0; base < rows * kPerRow; base += Config::kThreads) {
    int item = base + int(threadIdx.x);
    int row = item / kPerRow, first = item % kPerRow * kWide;
    int column = firstColumn + first;
    bool exists = row < rows &&
                  (S::kColumns % S::kTileColumns == 0 || column < S::kColumns);
    // Columns behind the last one count in no group.
    float values[kWide] = {};
    if (exists) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        Vector16 vector;
        ptx::loadShared(
            shared + unsigned(row * S::kRowBytes + (first + half * 4) * 4),
            vector.words);
        unpack<float>(vector, values + half * 4);
      }
    }
    Stored *to = data + (long long)row * S::kColumns + column;
    if constexpr (emulatesResult<Config>) {
      quant::emulate<typename Config::Scaling>(values, outer);
      if (exists)
        *reinterpret_cast<Vector16 *>(to) = pack<Stored>(values);
    } else {
      float scale =
          Config::Scaling::scale(quant::largestOfLanes<kLanes>(values));
#pragma unroll
      for (int i = 0; i < kWide; ++i)
        values[i] = __fdiv_rn(values[i], scale);
      if (exists) {
        Vector8 vector;
        vector.words[0] = packBytes<Stored>(values);
        vector.words[1] = packBytes<Stored>(values + 4);
        *reinterpret_cast<Vector8 *>(to) = vector;
        if (column % 128 == 0)
          scales[(long long)row * ceilDiv(S::kColumns, 128) + column / 128] =
              scale;
      }
    }
  }
}

} // namespace moe
