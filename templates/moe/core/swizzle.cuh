//===- swizzle.cuh - operand tiles in shared memory -------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A tile row is kTileK contiguous elements in 16-byte chunks. The index of a
// chunk in its row is XORed with bits of the row index, so that the same chunk
// of 8 adjacent rows covers all 32 banks without padding.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/types.cuh"

namespace moe {

template <int kRowBytes> struct Swizzle {
  static constexpr int kChunks = kRowBytes / 16;
  static_assert(kChunks >= 2 && (kChunks & (kChunks - 1)) == 0,
                "a tile row must be 32, 64, 128, ... bytes");
  /// The number of rows in one line of 32 banks (128 bytes).
  static constexpr int kRowsPerLine = maximum(1, 8 / kChunks);
  static constexpr int kMask = minimum(kChunks, 8) - 1;
  /// The number of rows after which the pattern repeats.
  static constexpr int kPeriod = 8;

  /// Returns the value with which the chunk indices of a row are XORed.
  static __device__ __forceinline__ int bits(int row) {
    return (row / kRowsPerLine) & kMask;
  }
  /// Returns the byte offset of a chunk in the tile.
  static __device__ __forceinline__ unsigned offset(int row, int chunk) {
    return unsigned(row * kRowBytes + ((chunk ^ bits(row)) * 16));
  }
};

} // namespace moe
