//===- wgmma.cuh - warpgroup-wide tensor-core engine ------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Engine wgmma: asynchronous multiplies of a warpgroup out of shared memory,
// bf16, f16 or e4m3 with f32 sums, on sm_90a. Swapped: weight rows fill the 64
// rows of an instruction and tokens its columns, as many as the tile really
// has, by 64 or 128 weight rows of a warpgroup. Or tokens fill the rows of
// e4m3, and 128 or 256 weight rows are the columns: a thread then has two
// tokens of each 64. It multiplies few scales where groups along k have some,
// and four threads have all columns of a token. A gate and its up value (8
// weight rows apart) lie in one thread. Sums of e4m3 are of one stage (128 of
// k) and are then added to f32 totals, unless the layer wants them fast.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx_wgmma.cuh"
#include "moe/core/types.cuh"

namespace moe::mma {

/// kFast: sums of e4m3 stay where they are over all of k. kAtoms: of 64 rows
/// that a warpgroup has. kWeightColumns: rows are tokens, and columns so many
/// weight rows; 0: swapped.
template <class Element, bool kFast = false, int kAtoms = 1,
          int kWeightColumns = 0>
struct Wgmma {
  using Input = Element;
  static constexpr bool kWarpSpecialized = true;
  static constexpr int kStepK = 32 / int(sizeof(Element));
  /// The sums of e4m3 keep fewer bits than f32 has.
  static constexpr bool kPromoted = kSame<Input, e4m3> && !kFast;
  static_assert(!kFast || kSame<Input, e4m3>,
                "sums of 16-bit operands are f32 sums");
  static_assert(kAtoms == 1 || kAtoms == 2, "a warpgroup has 64 or 128 rows");
  static constexpr bool kSwapped = kWeightColumns == 0;
  /// Rows of a warpgroup, and bytes of an operand row in a stage.
  static constexpr int kRows = 64 * kAtoms;
  static constexpr int kRowBytes = 128;
  static_assert(kSame<Input, bf16> || kSame<Input, f16> || kSame<Input, e4m3>,
                "engine wgmma multiplies bf16, f16 or e4m3");

  /// One warpgroup's share of a tile: kRows weight rows by kTokens tokens, or
  /// kRows tokens by all weight rows.
  template <int kTokens> struct Worker {
    static constexpr bool kSwapped = Wgmma::kSwapped;
    static constexpr int kRun = 2;
    static constexpr int kColumns = kSwapped ? kTokens : kWeightColumns;
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

    int firstRow, firstCol; ///< of this lane's sums
    /// The sums that instructions add to, and the totals, if there are any.
    float sums[kBuffers][kPieceSize];
    float totals[kPromoted ? kSize : 1];

    /// thread: of all that multiply.
    static __device__ __forceinline__ int rowOfThread(int thread) {
      return thread / 128 * kRows + thread % 128 / 32 * 16 + thread % 32 / 4;
    }

    /// Sums are not defined before begin() or take().
    Worker() = default;
    __device__ __forceinline__ Worker(int thread, int warpgroup) {
      begin(thread, warpgroup);
    }

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

    /// Begins to multiply a piece of the operands of a stage at the shared
    /// addresses: the warpgroup's first row, and the first column.
    /// kPromoted: forgets the sums before.
    __device__ __forceinline__ void multiply(int piece, unsigned rows,
                                             unsigned columns) {
      unsigned long long lhs = ptx::matrixDescriptor(
          rows + unsigned(piece / kPiecesOfAtom * 64 * kRowBytes));
      unsigned long long rhs =
          ptx::matrixDescriptor(columns + unsigned(piece % kPiecesOfAtom *
                                                   kPieceColumns * kRowBytes));
      auto &to = sums[piece % kBuffers];
#pragma unroll
      for (int step = 0; step < kRowBytes / 32; ++step) {
        if (kPromoted && step == 0)
          ptx::multiplyShared<Input, kPieceColumns, !kPromoted>(to, lhs, rhs);
        else
          ptx::multiplyShared<Input, kPieceColumns>(to, lhs + step * 2,
                                                    rhs + step * 2);
        // Its end tells that the last one's is near.
        if (kPromoted && step == kRowBytes / 32 - 2)
          ptx::commitMultiplies();
      }
    }

    /// Begins to multiply all pieces, one group of multiplies.
    __device__ __forceinline__ void multiplyAll(unsigned rows,
                                                unsigned columns) {
      ptx::beginMultiply();
#pragma unroll
      for (int piece = 0; piece < kPieces; ++piece)
        multiply(piece, rows, columns);
      ptx::commitMultiplies();
    }

    /// Begins to multiply one piece: two groups, the second one short.
    __device__ __forceinline__ void multiplyPiece(int piece, unsigned rows,
                                                  unsigned columns) {
      ptx::beginMultiply();
      multiply(piece, rows, columns);
      ptx::commitMultiplies();
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
    template <class Part>
    __device__ __forceinline__ void take(const Part &part) {
      static_assert(Part::kAtomSize < kAtomSize, "a part has fewer columns");
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
        int atom = i / kAtomSize, j = i % kAtomSize;
        set(i, j < Part::kAtomSize ? part.value(atom * Part::kAtomSize + j)
                                   : 0.0f);
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
      return firstRow + i / kAtomSize * 64 + i % 4 / 2 * 8;
    }
    __device__ __forceinline__ int col(int i) const {
      return firstCol + i % kAtomSize / 4 * 8 + i % 2;
    }
    /// The distance between a gate's sum and its up value's, 8 weight rows
    /// apart.
    static constexpr int kPartner = kSwapped ? 2 : 4;
    static constexpr bool isGate(int i) { return i / kPartner % 2 == 0; }
    static constexpr int partner(int i) { return i + kPartner; }
  };
};

} // namespace moe::mma
