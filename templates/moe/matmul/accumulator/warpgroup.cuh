//===- warpgroup.cuh - accumulators of a warpgroup in registers -*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The f32 accumulators of one warpgroup for a tile, in the register layout of
// wgmma. In each block of 16 rows by 8 columns, a thread has two adjacent
// columns of two rows, which are 8 rows apart. Engines wgmma and wgmma_rs
// accumulate in these registers; tcgen05 loads its accumulators into them
// (moe/matmul/accumulator/tensor_memory.cuh). The epilogues read them as a
// Fragment (moe/core/concepts.cuh).
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx_wgmma.cuh"
#include "moe/core/types.cuh"

namespace moe::mma {

/// Accumulators of one warpgroup. Its rows are divided into kAtoms row blocks
/// of 64 rows, the M of one MMA instruction. Identifiers call a row block an
/// atom.
///
///   kAtoms            number of row blocks
///   kColumnsOfTile    columns of the tile
///   kPromoted         `sums` are the partial accumulators of one piece for one
///                     pipeline stage or one step of k, which add() adds to
///                     f32 `totals`
///   kTokensInColumns  true if rows are weight rows and columns are tokens;
///                     false if rows are tokens
///   kRowsApart        row stride between a warp's rows in consecutive row
///                     blocks: 64 for wgmma, 16 for tensor memory
template <int kAtoms, int kColumnsOfTile, bool kPromoted, bool kTokensInColumns,
          int kRowsApart = 64>
struct WarpgroupSums {
  static constexpr bool kTokensAreColumns = kTokensInColumns;
  static constexpr int kRun = 2;
  static constexpr int kColumns = kColumnsOfTile;
  /// Rows of the tile that a warpgroup computes.
  static constexpr int kWarpgroupRows = 64 * kAtoms;
  /// A piece is the accumulators that one wgmma instruction writes: 64 rows by
  /// kPieceColumns columns. A tcgen05 instruction writes two pieces. With
  /// kPromoted, `sums` has one piece at a time.
  static constexpr int kPieceColumns =
      kPromoted && kColumns > 128 ? kColumns / 2 : kColumns;
  static constexpr int kBuffers = kPromoted ? 1 : kAtoms;
  static constexpr int kPiecesOfAtom = kColumns / kPieceColumns;
  static constexpr int kPieces = kAtoms * kPiecesOfAtom;
  static constexpr int kPieceSize = kPieceColumns / 2;
  static constexpr int kAtomSize = kColumns / 2;
  static constexpr int kSize = kAtoms * kAtomSize;
  static constexpr int kRowAtoms = kAtoms;
  static constexpr int kAtomRows = kRowsApart;
  /// Row stride between consecutive warps.
  static constexpr int kWarpRows = kRowsApart == 64 ? 16 : 16 * kAtoms;

  int firstRow, firstCol; ///< position of value(0) in the tile
  /// Accumulators that MMA instructions write, and f32 totals if kPromoted.
  float sums[kBuffers][kPieceSize];
  float totals[kPromoted ? kSize : 1];

  /// Returns the tile row of a thread's first accumulator. `thread`: index
  /// among all consumer threads.
  static __device__ __forceinline__ int rowOfThread(int thread) {
    return thread / 128 * kWarpgroupRows + thread % 128 / 32 * kWarpRows +
           thread % 32 / 4;
  }

  /// Leaves the accumulators uninitialized. begin() or take() must follow.
  WarpgroupSums() = default;

  /// Clears the accumulators and stores their position. `thread`: index in the
  /// warpgroup. `warpgroup`: index of the warpgroup, which selects its rows of
  /// the tile.
  __device__ __forceinline__ void begin(int thread, int warpgroup) {
    place(thread, warpgroup);
#pragma unroll
    for (int piece = 0; piece < kBuffers; ++piece)
#pragma unroll
      for (int i = 0; i < kPieceSize; ++i)
        sums[piece][i] = 0.0f;
#pragma unroll
    for (int i = 0; i < (kPromoted ? kSize : 1); ++i)
      totals[i] = 0.0f;
  }

  __device__ __forceinline__ void place(int thread, int warpgroup) {
    firstRow = rowOfThread(warpgroup * 128 + thread);
    firstCol = thread % 4 * 2;
  }

  /// Prevents the compiler from moving reads of accumulators before the wait.
  /// Called after each wait for the MMAs that write `sums`, before `sums` is
  /// read.
  __device__ __forceinline__ void finish() {
#pragma unroll
    for (int buffer = 0; buffer < kBuffers; ++buffer)
#pragma unroll
      for (int i = 0; i < kPieceSize; ++i)
        ptx::keep(sums[buffer][i]);
  }

  /// Adds kCount accumulators of piece `piece`, starting at index `first`, to
  /// the totals. Accumulator first + i is first multiplied by scale(i).
  template <int kCount, class Scale>
  __device__ __forceinline__ void add(int piece, int first, Scale scale) {
    add<kCount>(sums[0], piece, first, scale);
  }
  /// Like add() above, for a piece whose accumulators are in `from`.
  template <int kCount, class Scale>
  __device__ __forceinline__ void add(const float (&from)[kPieceSize],
                                      int piece, int first, Scale scale) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      float &total = totals[piece * kPieceSize + first + i];
      total = fmaf(from[first + i], scale(i), total);
    }
  }

  __device__ __forceinline__ float value(int i) const {
    if constexpr (kPromoted)
      return totals[i];
    else
      return sums[i / kPieceSize][i % kPieceSize];
  }
  /// Copies the accumulators of a worker with fewer columns. The remaining
  /// columns become zero.
  template <class Part> __device__ __forceinline__ void take(const Part &part) {
    static_assert(Part::kAtomSize < kAtomSize,
                  "the copied worker must have fewer columns");
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      int atom = i / kAtomSize, j = i % kAtomSize;
      set(i,
          j < Part::kAtomSize ? part.value(atom * Part::kAtomSize + j) : 0.0f);
    }
  }
  __device__ __forceinline__ void set(int i, float value) {
    if constexpr (kPromoted)
      totals[i] = value;
    else
      sums[i / kPieceSize][i % kPieceSize] = value;
  }
  /// Multiplies value(i) by `factor`.
  __device__ __forceinline__ void scale(int i, float factor) {
    if constexpr (kPromoted)
      totals[i] *= factor;
    else
      sums[i / kPieceSize][i % kPieceSize] *= factor;
  }
  /// Adds `by` to value(i).
  __device__ __forceinline__ void increase(int i, float by) {
    if constexpr (kPromoted)
      totals[i] += by;
    else
      sums[i / kPieceSize][i % kPieceSize] += by;
  }
  __device__ __forceinline__ int row(int i) const {
    return firstRow + i / kAtomSize * kRowsApart + i % 4 / 2 * 8;
  }
  __device__ __forceinline__ int col(int i) const {
    return firstCol + i % kAtomSize / 4 * 8 + i % 2;
  }
  /// Index distance between the accumulators of a gate and its up value, which
  /// are 8 weight rows apart.
  static constexpr int kPartner = kTokensAreColumns ? 2 : 4;
  static constexpr bool isGate(int i) { return i / kPartner % 2 == 0; }
  static constexpr int partner(int i) { return i + kPartner; }
};

} // namespace moe::mma
