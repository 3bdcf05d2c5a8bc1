//===- lhs_copier.cuh - copies of token rows to a ring ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The copies of lhs rows that all loops over a ring of stages share. Each
// thread copies 16-byte chunks of some rows with cp.async. 16 codes of 6 bits
// occupy the first 12 bytes of a chunk in shared memory, and ldmatrix unpacks
// them. Rows that do not exist and chunks past kK are filled with zeros; global
// memory is not read there.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx.cuh"
#include "moe/core/swizzle.cuh"
#include "moe/core/types.cuh"
#include "moe/math/codes.cuh"

namespace moe {

/// A thread's copies of lhs. `R`: sizes of the ring, in which each stage starts
/// with the tile of lhs. R has Layout, kRowBytes, kStageBytes, kRowsPerPass,
/// kLhsPasses, kTiles and kTailK.
template <class Config, class R> struct LhsCopier {
  using Schedule = typename Config::Schedule;
  using Input = typename Config::Input;
  static_assert(R::kLhsPasses <= 32, "a word has a bit of each pass");

  /// True if elements of rows have fewer bits than the engine's.
  static constexpr bool kPadded = kBits<Input> < 8 * int(sizeof(Input));
  static constexpr int kTileBytes = Schedule::kTileK * kBits<Input> / 8;

  const char *lhs;                ///< chunk 0 of row 0 in the next k tile
  unsigned lhsRow[R::kLhsPasses]; ///< offset of each pass's row in chunks
  unsigned lhsRows;               ///< bit i: the row of pass i exists
  int row, chunk;                 ///< row and chunk of pass 0
  unsigned destination;           ///< shared-memory address in stage 0

  __device__ __forceinline__ explicit LhsCopier(unsigned shared) {
    row = int(threadIdx.x) / R::Layout::kChunks;
    chunk = int(threadIdx.x) % R::Layout::kChunks;
    destination = shared + R::Layout::offset(row, chunk);
  }

  /// Sets the addresses of a tile's rows. `matrix`: all lhs rows. `rowChunks`:
  /// row stride in 16-byte chunks. `rows`: number of rows of the tile.
  /// `source(r)`: row of `matrix` for row r of the tile. An offset in chunks
  /// reaches 64 GB with one register a row.
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

  /// Issues the copy of pass i of k tile `tile` into `stage`.
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

/// Issues the copies of rhs to the first stages. They depend only on the
/// expert.
template <class Copier>
__device__ __forceinline__ void beginRhs(Copier &copier) {
  using R = typename Copier::R;
#pragma unroll
  for (int s = 0; s < minimum(Copier::Schedule::kStages - 1, R::kTiles); ++s)
    copier.copyRhs(s, s);
}

/// Issues the copies of lhs to the first stages, after beginRhs and setLhs.
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
