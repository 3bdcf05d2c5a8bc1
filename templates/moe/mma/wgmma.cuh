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
// has. A gate and its up value (8 weight rows apart) lie in one thread. Sums of
// e4m3 are of one stage (128 of k) and are then added to f32 totals, unless the
// layer wants them fast.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx_wgmma.cuh"
#include "moe/core/types.cuh"
#include "moe/mma/sums.cuh"

namespace moe::mma {

/// kFast: sums of e4m3 stay where they are over all of k.
template <class Element, bool kFast = false> struct Wgmma {
  using Input = Element;
  static constexpr bool kWarpSpecialized = true;
  static constexpr int kStepK = 32 / int(sizeof(Element));
  /// The sums of e4m3 keep fewer bits than f32 has.
  static constexpr bool kPromoted = kSame<Input, e4m3> && !kFast;
  static_assert(!kFast || kSame<Input, e4m3>,
                "sums of 16-bit operands are f32 sums");
  /// Weight rows of a warpgroup, and bytes of an operand row in a stage.
  static constexpr int kRows = 64;
  static constexpr int kRowBytes = 128;
  static_assert(kSame<Input, bf16> || kSame<Input, f16> || kSame<Input, e4m3>,
                "engine wgmma multiplies bf16, f16 or e4m3");

  /// One warpgroup's share of a tile: kRows weight rows by kTokens tokens.
  template <int kTokens> struct Worker : Sums<kTokens / 2, kPromoted> {
    static constexpr int kSize = kTokens / 2;
    static constexpr int kRun = 2;
    static constexpr bool kSwapped = true;

    int firstRow, firstCol; ///< of this lane's sums

    /// thread: in the warpgroup. warpgroup: which rows of the tile.
    __device__ __forceinline__ Worker(int thread, int warpgroup) {
      firstRow = warpgroup * kRows + thread / 32 * 16 + thread % 32 / 4;
      firstCol = thread % 4 * 2;
    }

    /// Begins to multiply (kPromoted: and forgets the sums before) the operands
    /// of a stage at the shared addresses: the
    /// first row of the warpgroup's weights, and of the tokens.
    __device__ __forceinline__ void multiply(unsigned weights,
                                             unsigned tokens) {
      unsigned long long lhs = ptx::matrixDescriptor(weights);
      unsigned long long rhs = ptx::matrixDescriptor(tokens);
      ptx::beginMultiply();
#pragma unroll
      for (int step = 0; step < kRowBytes / 32; ++step) {
        if (kPromoted && step == 0)
          ptx::multiplyShared<Input, kTokens, !kPromoted>(this->sums, lhs, rhs);
        else
          ptx::multiplyShared<Input, kTokens>(this->sums, lhs + step * 2,
                                              rhs + step * 2);
        // Its end tells that the last one's is near.
        if (kPromoted && step == kRowBytes / 32 - 2)
          ptx::commitMultiplies();
      }
      ptx::commitMultiplies();
    }

    /// After the wait for all multiplies, before a sum is read.
    __device__ __forceinline__ void finish() {
#pragma unroll
      for (int i = 0; i < kSize; ++i)
        ptx::keep(this->sums[i]);
    }

    __device__ __forceinline__ int row(int i) const {
      return firstRow + i % 4 / 2 * 8;
    }
    __device__ __forceinline__ int col(int i) const {
      return firstCol + i / 4 * 8 + i % 2;
    }
    static constexpr bool isGate(int i) { return i % 4 < 2; }
    static constexpr int partner(int i) { return i + 2; }
  };
};

} // namespace moe::mma
