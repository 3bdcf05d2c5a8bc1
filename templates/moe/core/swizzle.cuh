//===- swizzle.cuh - operand tiles in shared memory -------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A tile row is kTileK elements, dense, in 16-byte chunks. A chunk's place in
// its row is exclusive-ored with bits of the row, so that the same chunk of 8
// neighbouring rows covers all 32 banks, without padding.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/types.cuh"

namespace moe {

template <int kRowBytes> struct Swizzle {
  static constexpr int kChunks = kRowBytes / 16;
  static_assert(kChunks >= 2 && (kChunks & (kChunks - 1)) == 0,
                "a tile row must be 32, 64, 128, ... bytes");
  /// Rows that share one line of 32 banks.
  static constexpr int kRowsPerLine = maximum(1, 8 / kChunks);
  static constexpr int kMask = minimum(kChunks, 8) - 1;
  /// The pattern repeats after this many rows.
  static constexpr int kPeriod = 8;

  /// The number that chunk indices of a row are exclusive-ored with.
  static __device__ __forceinline__ int bits(int row) {
    return (row / kRowsPerLine) & kMask;
  }
  /// Byte offset of a chunk in the tile.
  static __device__ __forceinline__ unsigned offset(int row, int chunk) {
    return unsigned(row * kRowBytes + ((chunk ^ bits(row)) * 16));
  }
};

} // namespace moe
