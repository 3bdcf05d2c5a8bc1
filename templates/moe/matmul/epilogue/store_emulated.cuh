//===- store_emulated.cuh - emulated rows of the staging tile ---*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The last step of storeTile if the result is emulated, which means that its
// Scaling is one of moe/math/emulated.cuh. The result is stored as codes
// (quantized values) with their scales, or as the dequantized values of these
// codes. The f32 tile is already in shared memory and contains whole groups. A
// thread processes 8 contiguous values of a row. The threads that share a scale
// are lanes of one warp. A warp-specialized engine stores some rows at a time
// (moe/matmul/epilogue/store_swapped.cuh). The results are bitwise equal to
// those of kernel `quantize` (moe/kernel/quantize.cuh).
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx.cuh"
#include "moe/core/types.cuh"
#include "moe/matmul/epilogue/store_chunk.cuh"
#include "moe/quant/lanes.cuh"

namespace moe {

/// Stores rows [0, rows) of the staged tile. Called by kThreads threads, after
/// a barrier.
///
///   S            the Staging of the tile
///   thread       index of the thread among kThreads
///   shared       shared-memory address of the tile
///   firstColumn  result column of the tile's first column
///   data         address of result row 0, see storeTile
///   outer        outer scale, see inverseOfScale
///   scales       address of the scales of row 0, if the result is codes
template <class Config, class S, int kThreads, class Stored,
          class Scale = float>
__device__ __forceinline__ void
storeEmulated(int thread, unsigned shared, int rows, int firstColumn,
              Stored *data, float outer,
              [[maybe_unused]] Scale *scales = nullptr) {
  using Scaling = typename Config::Scaling;
  constexpr int kWide = 8;
  constexpr int kPerRow = S::kTileColumns / kWide;
  static_assert(kPerRow % quant::kLanesOfScale<Scaling> == 0,
                "a tile must hold whole groups of columns");
  static_assert(S::kColumns % kWide == 0,
                "rows must be a multiple of 8 columns");
  // All lanes run the same number of iterations, because the lanes of a group
  // exchange values with shuffles.
#pragma unroll 1
  for (int base = 0; base < rows * kPerRow; base += kThreads) {
    int item = base + thread;
    int row = item / kPerRow, first = item % kPerRow * kWide;
    int column = firstColumn + first;
    bool exists = row < rows &&
                  (S::kColumns % S::kTileColumns == 0 || column < S::kColumns);
    // Columns past the end are zero and do not affect a group's scale.
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
    if constexpr (encodesResult<Config>) {
      float scale = quant::encode<Scaling>(values, outer);
      if (exists)
        quant::storeCodes8<S::kColumns, Scaling::kColumns>(
            values, scale, row, column, data, scales);
    } else {
      quant::emulate<Scaling>(values, outer);
      if (exists)
        *reinterpret_cast<Vector16 *>(data + (long long)row * S::kColumns +
                                      column) = pack<Stored>(values);
    }
  }
}

} // namespace moe
