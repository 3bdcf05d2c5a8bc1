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
#include "moe/matmul/accumulator/warpgroup.cuh"

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
  static constexpr bool kTokensAreColumns = kWeightColumns == 0;
  /// Rows of a warpgroup, and bytes of an operand row in a stage.
  static constexpr int kRows = 64 * kAtoms;
  static constexpr int kRowBytes = 128;
  static_assert(kSame<Input, bf16> || kSame<Input, f16> || kSame<Input, e4m3>,
                "engine wgmma multiplies bf16, f16 or e4m3");

  /// The multiplies of one warpgroup's share of a tile, and its sums: kRows
  /// weight rows by kTokens tokens, or kRows tokens by all weight rows.
  template <int kTokens>
  struct Worker
      : WarpgroupSums<kAtoms, kTokensAreColumns ? kTokens : kWeightColumns,
                      kPromoted, kTokensAreColumns> {
    using Base =
        WarpgroupSums<kAtoms, kTokensAreColumns ? kTokens : kWeightColumns,
                      kPromoted, kTokensAreColumns>;

    Worker() = default;
    __device__ __forceinline__ Worker(int thread, int warpgroup) {
      this->begin(thread, warpgroup);
    }

    /// Begins to multiply a piece of the operands of a stage at the shared
    /// addresses: the warpgroup's first row, and the first column.
    /// kPromoted: forgets the sums before.
    __device__ __forceinline__ void multiply(int piece, unsigned rows,
                                             unsigned columns) {
      unsigned long long lhs = ptx::matrixDescriptor(
          rows + unsigned(piece / Base::kPiecesOfAtom * 64 * kRowBytes));
      unsigned long long rhs = ptx::matrixDescriptor(
          columns + unsigned(piece % Base::kPiecesOfAtom * Base::kPieceColumns *
                             kRowBytes));
      auto &to = this->sums[piece % Base::kBuffers];
#pragma unroll
      for (int step = 0; step < kRowBytes / 32; ++step) {
        if (kPromoted && step == 0)
          ptx::multiplyShared<Input, Base::kPieceColumns, !kPromoted>(to, lhs,
                                                                      rhs);
        else
          ptx::multiplyShared<Input, Base::kPieceColumns>(to, lhs + step * 2,
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
      for (int piece = 0; piece < Base::kPieces; ++piece)
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
  };
};

} // namespace moe::mma
