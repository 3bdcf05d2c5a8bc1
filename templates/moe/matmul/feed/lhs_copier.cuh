//===- lhs_copier.cuh - copies of token rows to a ring ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The copies of lhs rows to a ring of pipeline stages, for the mainloops of
// grid engines. Each thread copies 16-byte chunks of some rows with cp.async.
// 16 codes of 6 bits use the first 12 bytes of a chunk in shared memory;
// ldmatrix unpacks them. Rows past the end and chunks past kK are filled with
// zeros without reading global memory.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx.cuh"
#include "moe/core/swizzle.cuh"
#include "moe/core/types.cuh"
#include "moe/math/codes.cuh"

namespace moe {

/// A thread's copies of lhs. `R`: sizes of the ring (such as moe::Ring), in
/// which each stage starts with the lhs tile. R has Layout, kRowBytes,
/// kStageBytes, kRowsPerPass, kLhsPasses, kTiles and kTailK.
template <class Config, class R> struct LhsCopier {
  using Schedule = typename Config::Schedule;
  using Input = typename Config::Input;
  static_assert(R::kLhsPasses <= 32, "at most 32 passes fit the bit mask");

  /// True if elements in memory have fewer bits than the engine's elements.
  static constexpr bool kPadded = kBits<Input> < 8 * int(sizeof(Input));
  static constexpr int kTileBytes = Schedule::kTileK * kBits<Input> / 8;

  const char *lhs; ///< address of chunk 0 of row 0 in the next k tile
  unsigned lhsRow[R::kLhsPasses]; ///< row offsets in 16-byte chunks
  unsigned lhsRows;               ///< bit i is 1 if the row of pass i exists
  int row, chunk;                 ///< tile row and chunk of pass 0
  unsigned destination;           ///< shared-memory address in stage 0

  __device__ __forceinline__ explicit LhsCopier(unsigned shared) {
    row = int(threadIdx.x) / R::Layout::kChunks;
    chunk = int(threadIdx.x) % R::Layout::kChunks;
    destination = shared + R::Layout::offset(row, chunk);
  }

  /// Sets the addresses of a tile's rows.
  ///
  ///   matrix     all rows of lhs
  ///   rowChunks  row stride in 16-byte chunks; a 32-bit chunk offset covers
  ///              64 GB and needs one register per row
  ///   rows       number of rows in the tile
  ///   source(r)  row of `matrix` for row r of the tile
  template <class Source>
  __device__ __forceinline__ void
  setLhs(const Input *matrix, unsigned rowChunks, int rows, Source source) {
    lhs = reinterpret_cast<const char *>(matrix);
    lhsRows = 0;
#pragma unroll
    for (int i = 0; i < R::kLhsPasses; ++i) {
      int r = row + i * R::kRowsPerPass;
      bool exists = r < rows;
      lhsRows |= unsigned(exists) << i;
      lhsRow[i] = unsigned(source(exists ? r : 0)) * rowChunks + chunk;
    }
  }

  __device__ __forceinline__ bool inK(int tile) const {
    return !R::kTailK ||
           tile * Schedule::kTileK + chunk * kPerVector<Input> < Config::kK;
  }

  /// Issues the copy for pass i of k tile `tile` to pipeline stage `stage`.
  __device__ __forceinline__ void copyLhs(int i, int stage, int tile) {
    if (Schedule::kTileM % R::kRowsPerPass == 0 ||
        row + i * R::kRowsPerPass < Schedule::kTileM)
      copyChunk(destination + unsigned(stage * R::kStageBytes) +
                    i * R::kRowsPerPass * R::kRowBytes,
                lhsRow[i], (lhsRows >> i & 1) && inK(tile));
  }

  __device__ __forceinline__ void copyChunk(unsigned to, unsigned index,
                                            bool exists) const {
    if constexpr (kPadded) {
      constexpr int kChunkBytes = kTileBytes / R::Layout::kChunks;
      ptx::copyCodes<Config::kCpAsync, kChunkBytes>(
          to, exists ? lhs + (long long)index * kChunkBytes : lhs, exists);
    } else {
      ptx::copy16<Config::kCpAsync>(to, lhs, index, exists);
    }
  }

  __device__ __forceinline__ void copyLhs(int stage, int tile) {
#pragma unroll
    for (int i = 0; i < R::kLhsPasses; ++i)
      copyLhs(i, stage, tile);
    lhs += kTileBytes;
  }
};

/// Issues the copies of rhs to the first kStages - 1 stages. They do not depend
/// on the predecessor launch.
template <class Copier>
__device__ __forceinline__ void beginRhs(Copier &copier) {
  using R = typename Copier::R;
#pragma unroll
  for (int s = 0; s < minimum(Copier::Schedule::kStages - 1, R::kTiles); ++s)
    copier.copyRhs(s, s);
}

/// Issues the copies of lhs to the first kStages - 1 stages. Called after
/// beginRhs and setLhs.
template <class Copier>
__device__ __forceinline__ void beginLhs(Copier &copier) {
  using R = typename Copier::R;
#pragma unroll
  for (int s = 0; s < Copier::Schedule::kStages - 1; ++s) {
    if (s < R::kTiles)
      copier.copyLhs(s, s);
    ptx::commitCopies();
  }
}

} // namespace moe
