//===- wgmma_rs.cuh - weights of few bits in registers ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Engine wgmma_rs: multiplies of a warpgroup whose weight rows are registers
// and whose tokens lie in shared memory, bf16, f16 or e4m3 with f32 sums, on
// sm_90a. Weights are codes in the order of fragments (math/slabs.cuh): a warp
// converts those of its 16 rows into registers while the multiplies before them
// run. Sums of e4m3 are of one stage (128 of k), or of one step where weights
// have scales of 32, and are then added to f32 totals.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx_wgmma.cuh"
#include "moe/matmul/atom/wgmma.cuh"

namespace moe::mma {

/// kFast: not for this engine. kAtoms: of 64 rows that a warpgroup has.
template <class Element, bool kFast = false, int kAtoms = 1>
struct WgmmaRs : Wgmma<Element, kFast, kAtoms> {
  using Base = Wgmma<Element, kFast, kAtoms>;
  static_assert(!kFast, "engine wgmma_rs promotes sums of 8-bit operands");
  /// Weights come as codes in slabs.
  static constexpr bool kSlabs = true;

  template <int kTokens> struct Worker : Base::template Worker<kTokens> {
    using Base::template Worker<kTokens>::Worker;

    /// Begins to multiply a step of an atom's rows, which the threads hold, by
    /// the tokens of a stage. kPromoted: the first step forgets the sums
    /// before.
    __device__ __forceinline__ void
    multiply(int atom, int step, const unsigned (&rows)[4], unsigned columns) {
      auto &to = this->sums[atom % Base::template Worker<kTokens>::kBuffers];
      const unsigned long long tokens =
          ptx::alongK(ptx::matrixDescriptor(columns), step * 32);
      if (Base::kPromoted && step == 0)
        ptx::multiplyRegisters<Element, kTokens, !Base::kPromoted>(to, rows,
                                                                   tokens);
      else
        ptx::multiplyRegisters<Element, kTokens>(to, rows, tokens);
    }

    /// Begins to multiply a step into sums that forget what was before.
    static __device__ __forceinline__ void
    multiplyStep(float (&to)[kTokens / 2], int step, const unsigned (&rows)[4],
                 unsigned columns) {
      ptx::multiplyRegisters<Element, kTokens, false>(
          to, rows, ptx::alongK(ptx::matrixDescriptor(columns), step * 32));
    }
  };
};

} // namespace moe::mma
