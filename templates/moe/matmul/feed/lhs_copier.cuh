//===- lhs_copier.cuh - rows of tokens into a ring --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every loop over a ring of stages copies rows of lhs so: each thread takes
// 16-byte chunks of some rows, by cp.async. 16 codes of 6 bits take the first
// 12 bytes of a chunk in shared memory, and ldmatrix unpacks them. Rows that do
// not exist and chunks behind kK are zeros and are never read.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx.cuh"
#include "moe/core/swizzle.cuh"
#include "moe/core/types.cuh"
#include "moe/math/codes.cuh"

namespace moe {

/// R: sizes of the ring, of which each stage begins with the tile of lhs. Has
/// Layout, kRowBytes, kStageBytes, kRowsPerPass, kLhsPasses, kTiles and kTailK.
template <class Config, class R> struct LhsCopier {
  using Schedule = typename Config::Schedule;
  using Input = typename Config::Input;
  static_assert(R::kLhsPasses <= 32, "a word has a bit of each pass");

  /// Rows are codes of fewer bits than the engine's elements.
  static constexpr bool kPadded = kBits<Input> < 8 * int(sizeof(Input));
  static constexpr int kTileBytes = Schedule::kTileK * kBits<Input> / 8;

  const char *lhs;                ///< chunk 0 of the next stage, row 0
  unsigned lhsRow[R::kLhsPasses]; ///< each row's distance, in chunks
  unsigned lhsRows;               ///< bit i: row of pass i exists
  int row, chunk;                 ///< of pass 0
  unsigned destination;           ///< shared address in stage 0

  __device__ __forceinline__ explicit LhsCopier(unsigned shared) {
    row = int(threadIdx.x) / R::Layout::kChunks;
    chunk = int(threadIdx.x) % R::Layout::kChunks;
    destination = shared + R::Layout::offset(row, chunk);
  }

  /// matrix: all lhs rows, rowChunks 16-byte chunks apart; source(r): which of
  /// them is row r of the tile; rows: how many the tile has. A distance in
  /// chunks reaches 64 GB with one register a row.
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

  /// Pass i for k tile `tile`, into `stage`.
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

/// Begins to fill the first stages with rhs: it needs nothing but the expert.
template <class Copier>
__device__ __forceinline__ void beginRhs(Copier &copier) {
  using R = typename Copier::R;
#pragma unroll
  for (int s = 0; s < minimum(Copier::Schedule::kStages - 1, R::kTiles); ++s)
    copier.copyRhs(s, s);
}

/// Begins to fill the first stages with lhs, after beginRhs and setLhs.
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
