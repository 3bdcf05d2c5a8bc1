//===- warpgroup.cuh - sums of a warpgroup in registers ---------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The f32 sums of one warpgroup for a tile, in the layout of wgmma's
// accumulators: a thread has two neighbours of every eight columns, in two rows
// of every 16, eight rows apart. It is the accumulator of the engines wgmma and
// wgmma_rs, and the Fragment that their epilogues read (core/concepts.cuh).
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx_wgmma.cuh"
#include "moe/core/types.cuh"

namespace moe::mma {

/// kAtoms: instructions of 64 rows that the warpgroup has one above the other.
/// kColumnsOfTile: columns of each. kPromoted: instructions add to sums of one
/// piece, which are added to totals. kTokensInColumns: the rows are weight
/// rows; else rows are tokens. kRowsApart: from an atom of a warp's sums to the
/// next, 64 or 16.
template <int kAtoms, int kColumnsOfTile, bool kPromoted, bool kTokensInColumns,
          int kRowsApart = 64>
struct WarpgroupSums {
  static constexpr bool kTokensAreColumns = kTokensInColumns;
  static constexpr int kRun = 2;
  static constexpr int kColumns = kColumnsOfTile;
  /// Rows of a warpgroup.
  static constexpr int kWarpgroupRows = 64 * kAtoms;
  /// The piece of one instruction: 64 rows by so many columns. Sums that
  /// are promoted are those of one such piece at a time.
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
  /// From a warp's first row to that of the next.
  static constexpr int kWarpRows = kRowsApart == 64 ? 16 : 16 * kAtoms;

  int firstRow, firstCol; ///< of this lane's sums
  /// The sums that instructions add to, and the totals, if there are any.
  float sums[kBuffers][kPieceSize];
  float totals[kPromoted ? kSize : 1];

  /// thread: of all that multiply.
  static __device__ __forceinline__ int rowOfThread(int thread) {
    return thread / 128 * kWarpgroupRows + thread % 128 / 32 * kWarpRows +
           thread % 32 / 4;
  }

  /// Sums are not defined before begin() or take().
  WarpgroupSums() = default;

  /// Begins with sums of zero. thread: in the warpgroup. warpgroup: which
  /// rows of the tile.
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

  /// After the wait for all multiplies, before a sum is read.
  __device__ __forceinline__ void finish() {
#pragma unroll
    for (int buffer = 0; buffer < kBuffers; ++buffer)
#pragma unroll
      for (int i = 0; i < kPieceSize; ++i)
        ptx::keep(sums[buffer][i]);
  }

  /// Adds kCount sums of a piece from `first` on, times scale(i) with i from
  /// 0 on, to the totals.
  template <int kCount, class Scale>
  __device__ __forceinline__ void add(int piece, int first, Scale scale) {
    add<kCount>(sums[0], piece, first, scale);
  }
  /// The same of other sums of a piece.
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
  /// Takes the sums of a worker with fewer columns. The columns behind those
  /// are zero.
  template <class Part> __device__ __forceinline__ void take(const Part &part) {
    static_assert(Part::kAtomSize < kAtomSize, "a part has fewer columns");
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
  /// Multiplies what value(i) gives.
  __device__ __forceinline__ void scale(int i, float factor) {
    if constexpr (kPromoted)
      totals[i] *= factor;
    else
      sums[i / kPieceSize][i % kPieceSize] *= factor;
  }
  /// Adds to what value(i) gives.
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
  /// The distance between a gate's sum and its up value's, 8 weight rows
  /// apart.
  static constexpr int kPartner = kTokensAreColumns ? 2 : 4;
  static constexpr bool isGate(int i) { return i / kPartner % 2 == 0; }
  static constexpr int partner(int i) { return i + kPartner; }
};

} // namespace moe::mma
