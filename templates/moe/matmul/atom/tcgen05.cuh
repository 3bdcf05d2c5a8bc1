//===- tcgen05.cuh - tensor cores of Blackwell ------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Engine tcgen05, for sm_100 and its family. One thread issues MMAs that read
// bf16, f16 or e4m3 operands from shared memory and accumulate f32 in tensor
// memory. Weight rows are the 128 rows (M) of an MMA instruction, and tokens
// are its columns (N). N is a field of the instruction descriptor: the tile's
// token count, rounded up to a multiple of 16. With scales per group along k,
// e4m3 accumulators cover one pipeline stage (128 elements of k). Tcgen05Scaled
// multiplies e4m3 and e2m1 operands with block scales.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx_tcgen05.cuh"
#include "moe/core/ptx_wgmma.cuh"
#include "moe/core/types.cuh"
#include "moe/math/codes.cuh"
#include "moe/matmul/accumulator/tensor_memory.cuh"

namespace moe::mma {

/// Engine tcgen05 without block scales.
///
///   kFast   accumulators of e4m3 products are not promoted: they accumulate
///           over all of k
///   kAtoms  number of 64-row blocks per warpgroup; must be 2
template <class Element, bool kFast = false, int kAtoms = 2> struct Tcgen05 {
  using Input = Element;
  static_assert(kSame<Input, bf16> || kSame<Input, f16> || kSame<Input, e4m3>,
                "engine tcgen05 multiplies bf16, f16 or e4m3");
  static_assert(kAtoms == 2, "a warpgroup must have 128 rows");
  static constexpr bool kWarpSpecialized = true;
  static constexpr bool kSumsInTensorMemory = true;
  static constexpr int kStepK = 32 / int(sizeof(Element));
  static constexpr bool kPromoted = kSame<Input, e4m3> && !kFast;
  static constexpr bool kTokensAreColumns = true;
  /// Rows that a warpgroup computes, and bytes of an operand row in a pipeline
  /// stage.
  static constexpr int kRows = 128;
  static constexpr int kRowBytes = 128;

  template <int kTokens> struct Worker : TensorMemorySums<kTokens, kPromoted> {
    Worker() = default;

    /// Issues the MMAs of one pipeline stage: 128 weight rows by `tokens`
    /// tokens. `sums`: tensor-memory address of the accumulators. `isFirst`:
    /// true if the first MMA overwrites the accumulators. Called by one thread.
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

/// Engine tcgen05 with block scales.
///
///   Element  element type of the tokens: e4m3 or e2m1x2
///   Scale    ue8m0 for 32 elements along k, or e4m3 for 16
///   Weight   Element, or e2m1 with e4m3 tokens
///
/// Sizes along k are in bytes of the token operand, as in engine
/// mma_sync_scaled. Each pipeline stage has its own tensor-memory columns for
/// scales. They are overwritten only after the MMAs that read them have
/// released the pipeline stage.
template <class Element, class Scale, class Weight> struct Tcgen05Scaled {
  using Input = Element;
  static constexpr bool kWarpSpecialized = true;
  static constexpr bool kSumsInTensorMemory = true;
  static constexpr int kStepK = 32;
  static constexpr bool kPromoted = false;
  static constexpr bool kTokensAreColumns = true;
  static constexpr int kRows = 128;
  static constexpr int kRowBytes = 128;
  static constexpr bool kOfBytes = kSame<Element, e4m3>;
  static constexpr bool kOfPowers = kSame<Scale, ue8m0>;
  static constexpr bool kSpreadsCodes = kOfBytes && kSame<Weight, e2m1>;
  static_assert(kSpreadsCodes || kSame<Element, Weight>,
                "Weight must equal the element type of tokens, or be e2m1 with "
                "e4m3 tokens");
  static_assert(kOfBytes ? kOfPowers
                         : kSame<Element, e2m1x2> &&
                               (kOfPowers || kSame<Scale, e4m3>),
                "engine tcgen05 multiplies e4m3 with ue8m0 scales, and e2m1 "
                "with ue8m0 or e4m3 scales");
  /// kStepScales: scales (bytes) of one operand row per step of k. kScaleWords:
  /// 32-bit words of scales of one operand row per pipeline stage.
  static constexpr int kStepScales = kOfBytes ? 1 : kOfPowers ? 2 : 4;
  static constexpr int kScaleWords = kRowBytes / kStepK * kStepScales / 4;

  template <int kTokens> struct Worker : TensorMemorySums<kTokens, false> {
    static_assert(kTokens <= 128, "a scale block has the scales of 128 tokens");
    /// Tensor-memory columns for the scales of one pipeline stage: first the
    /// weight rows' scales, then the tokens' scales.
    static constexpr int kScaleColumns = 2 * 4 * kScaleWords;
    Worker() = default;

    /// Issues the copies of the scales to tensor memory, then the MMAs, as in
    /// Tcgen05::Worker::issue. `scales`: shared-memory address of the stage's
    /// 128 x 4 scale blocks (moe/math/scale_atoms.cuh), weight rows first.
    /// `columnsOfScales`: tensor-memory address of the copied scales.
    static __device__ __forceinline__ void issue(unsigned sums, unsigned rows,
                                                 unsigned columns, int tokens,
                                                 bool isFirst, unsigned scales,
                                                 unsigned columnsOfScales) {
#pragma unroll
      for (int atom = 0; atom < 2 * kScaleWords; ++atom)
        ptx::copyScales(columnsOfScales + unsigned(atom * 4),
                        ptx::alongK(ptx::scaleDescriptor(scales), atom * 512));
      const unsigned long long lhs = ptx::tensorDescriptor(rows),
                               rhs = ptx::tensorDescriptor(columns);
#pragma unroll
      for (int step = 0; step < kRowBytes / kStepK; ++step) {
        const int first = step * kStepScales;
        const unsigned word = columnsOfScales + unsigned(first / 4 * 4);
        ptx::multiplyScaled<Element, Scale>(
            sums, ptx::alongK(lhs, step * kStepK),
            ptx::alongK(rhs, step * kStepK),
            ptx::scaledDescriptor<Weight, Element, Scale>(tokens, first % 4),
            word, word + unsigned(4 * kScaleWords), !isFirst || step > 0);
      }
    }
  };
};

} // namespace moe::mma
