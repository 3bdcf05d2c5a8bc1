//===- tcgen05.cuh - tensor cores of Blackwell ------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Engine tcgen05: multiplies out of shared memory that one thread issues, bf16,
// f16 or e4m3 with f32 sums in tensor memory, on sm_100 and its family. Weight
// rows fill the 128 rows of an instruction and tokens its columns, whose number
// is a word of the instruction: it is that of the tile, by 16. Sums of e4m3 are
// of one stage (128 of k) where groups along k have scales.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx_tcgen05.cuh"
#include "moe/core/ptx_wgmma.cuh"
#include "moe/core/types.cuh"
#include "moe/matmul/accumulator/tensor_memory.cuh"

namespace moe::mma {

/// kFast: sums of e4m3 stay where they are over all of k; they are f32 sums.
/// kAtoms: of 64 rows that a warpgroup has.
template <class Element, bool kFast = false, int kAtoms = 2> struct Tcgen05 {
  using Input = Element;
  static_assert(kSame<Input, bf16> || kSame<Input, f16> || kSame<Input, e4m3>,
                "engine tcgen05 multiplies bf16, f16 or e4m3");
  static_assert(kAtoms == 2, "a warpgroup has 128 rows");
  static constexpr bool kWarpSpecialized = true;
  static constexpr bool kSumsInTensorMemory = true;
  static constexpr int kStepK = 32 / int(sizeof(Element));
  static constexpr bool kPromoted = kSame<Input, e4m3> && !kFast;
  static constexpr bool kTokensAreColumns = true;
  /// Rows of a warpgroup, and bytes of an operand row in a stage.
  static constexpr int kRows = 128;
  static constexpr int kRowBytes = 128;

  template <int kTokens> struct Worker : TensorMemorySums<kTokens, kPromoted> {
    Worker() = default;

    /// Begins to multiply a stage of 128 weight rows by so many tokens into
    /// sums in tensor memory. isFirst: it forgets what was there. By one
    /// thread.
    static __device__ __forceinline__ void issue(unsigned sums, unsigned rows,
                                                 unsigned columns, int tokens,
                                                 bool isFirst) {
      const unsigned long long lhs = ptx::tensorDescriptor(rows),
                               rhs = ptx::tensorDescriptor(columns);
      const unsigned instruction = ptx::instructionDescriptor<Input>(tokens);
#pragma unroll
      for (int step = 0; step < kRowBytes / 32; ++step)
        ptx::multiplyTensor<Input>(sums, ptx::alongK(lhs, step * 32),
                                   ptx::alongK(rhs, step * 32), instruction,
                                   !isFirst || step > 0);
    }
  };
};

} // namespace moe::mma
