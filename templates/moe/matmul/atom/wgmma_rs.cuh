//===- wgmma_rs.cuh - weights of few bits in registers ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Engine wgmma_rs, for sm_90a: wgmma with weights as the register operand A and
// tokens as the shared-memory operand B. Operands are bf16, f16 or e4m3;
// accumulators are f32. Weights are codes (quantized values) in MMA fragment
// order (moe/math/slabs.cuh). Each warp converts the codes of its 16 weight
// rows in registers while earlier MMAs run. e4m3 accumulators cover one
// pipeline stage (128 elements of k). If weights have one scale per 32 elements
// that cannot be part of the elements (moe/quant/slab_sums.cuh), they cover one
// step. They are then added to f32 totals.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx_wgmma.cuh"
#include "moe/matmul/atom/wgmma.cuh"

namespace moe::mma {

/// Engine wgmma_rs. `kFast`: must be false. `kAtoms`: number of 64-row MMA
/// blocks per warpgroup.
template <class Element, bool kFast = false, int kAtoms = 1>
struct WgmmaRs : Wgmma<Element, kFast, kAtoms> {
  using Base = Wgmma<Element, kFast, kAtoms>;
  static_assert(!kFast,
                "engine wgmma_rs promotes the accumulators of 8-bit operands");
  /// Weights are codes in slabs.
  static constexpr bool kSlabs = true;

  template <int kTokens> struct Worker : Base::template Worker<kTokens> {
    using Base::template Worker<kTokens>::Worker;

    /// Issues the MMA of one step of k for row block `atom`. `rows`: this
    /// thread's A registers for the row block. `columns`: shared-memory address
    /// of the pipeline stage's tokens. If kPromoted, the MMA of step 0
    /// overwrites the accumulators.
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

    /// Issues the MMA of one step of k, which overwrites the accumulators `to`.
    static __device__ __forceinline__ void
    multiplyStep(float (&to)[kTokens / 2], int step, const unsigned (&rows)[4],
                 unsigned columns) {
      ptx::multiplyRegisters<Element, kTokens, false>(
          to, rows, ptx::alongK(ptx::matrixDescriptor(columns), step * 32));
    }
  };
};

} // namespace moe::mma
