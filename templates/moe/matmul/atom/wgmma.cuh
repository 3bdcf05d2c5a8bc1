//===- wgmma.cuh - warpgroup-wide tensor-core engine ------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Engine wgmma, for sm_90a: asynchronous warpgroup MMAs, which read bf16, f16
// or e4m3 operands from shared memory and accumulate f32 in registers.
//
// By default the operands are swapped: weight rows are the 64 rows (M) of an
// MMA instruction, and tokens are its columns (N). N then follows the tile's
// actual token count. A warpgroup computes 64 or 128 weight rows.
//
// For e4m3, tokens may instead be the rows, and 128 or 256 weight rows the
// columns. A thread then has two tokens of every 64. With scales per group
// along k, it needs only a few scale products. The four threads of a quad have
// all columns of a token.
//
// One thread has both a gate and its up value, which are 8 weight rows apart.
// e4m3 accumulators cover one pipeline stage (128 elements of k) and are then
// added to f32 totals, unless the layer requests fast accumulation.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx_wgmma.cuh"
#include "moe/core/types.cuh"
#include "moe/matmul/accumulator/warpgroup.cuh"

namespace moe::mma {

/// Engine wgmma.
///
///   kFast           e4m3 accumulators are not promoted: they accumulate over
///                   all of k
///   kAtoms          number of 64-row MMA blocks per warpgroup
///   kWeightColumns  if tokens are the MMA's rows: number of weight rows of the
///                   tile, which are the columns; 0 if operands are swapped
template <class Element, bool kFast = false, int kAtoms = 1,
          int kWeightColumns = 0>
struct Wgmma {
  using Input = Element;
  static constexpr bool kWarpSpecialized = true;
  static constexpr int kStepK = 32 / int(sizeof(Element));
  /// Tensor cores accumulate e4m3 products with fewer bits than f32.
  static constexpr bool kPromoted = kSame<Input, e4m3> && !kFast;
  static_assert(!kFast || kSame<Input, e4m3>,
                "kFast needs e4m3 operands: 16-bit operands accumulate in f32");
  static_assert(kAtoms == 1 || kAtoms == 2,
                "a warpgroup must have 64 or 128 rows");
  static constexpr bool kTokensAreColumns = kWeightColumns == 0;
  /// Rows that a warpgroup computes, and bytes of an operand row in a pipeline
  /// stage.
  static constexpr int kRows = 64 * kAtoms;
  static constexpr int kRowBytes = 128;
  static_assert(kSame<Input, bf16> || kSame<Input, f16> || kSame<Input, e4m3>,
                "engine wgmma multiplies bf16, f16 or e4m3");

  /// The MMAs of a warpgroup's part of a tile, and their accumulators. The part
  /// is kRows weight rows by kTokens tokens, or kRows tokens by all weight
  /// rows.
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

    /// Issues the MMAs of one piece (64 rows by kPieceColumns columns) for a
    /// pipeline stage. `rows`, `columns`: shared-memory addresses of the
    /// warpgroup's first row and of the first column. If kPromoted, the first
    /// MMA overwrites the accumulators.
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
        // The last MMA is committed separately. When this group completes, only
        // the last MMA is still running.
        if (kPromoted && step == kRowBytes / 32 - 2)
          ptx::commitMultiplies();
      }
    }

    /// Issues the MMAs of all pieces as one wgmma group.
    __device__ __forceinline__ void multiplyAll(unsigned rows,
                                                unsigned columns) {
      ptx::beginMultiply();
#pragma unroll
      for (int piece = 0; piece < Base::kPieces; ++piece)
        multiply(piece, rows, columns);
      ptx::commitMultiplies();
    }

    /// Issues the MMAs of one piece as two wgmma groups. The second group
    /// contains only the last MMA, so that a wait can tell when the MMAs are
    /// nearly complete. Used if kPromoted.
    __device__ __forceinline__ void multiplyPiece(int piece, unsigned rows,
                                                  unsigned columns) {
      ptx::beginMultiply();
      multiply(piece, rows, columns);
      ptx::commitMultiplies();
    }
  };
};

} // namespace moe::mma
