//===- slab_sums.cuh - slabs whose scales multiply sums ---------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Conversion of 4-bit codes in slabs (moe/math/slabs.cuh) to e4m3 operands. An
// e2m1 code, or an i4 code minus 8, is representable in e4m3, so codes are
// multiplied without their scales. A group along k is a whole pipeline stage or
// one step of k. Its partial accumulators are multiplied by the weight row's
// scale for the group and added to totals. The tokens' scales multiply the
// totals at the end.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/math/code_bytes.cuh"
#include "moe/matmul/feed/scales_swapped.cuh"
#include "moe/quant/slab_codes.cuh"

namespace moe {

template <class Config, class Fragment>
struct SlabSums : TokenScales<Config, Fragment> {
  using Numbers = SlabNumbers<Config>;
  using Codes = typename Numbers::Codes;
  using Scale = typename Config::Scale;
  static constexpr int kStepWords = Codes::kStepWords;
  static constexpr bool kIntegers = kSame<typename Config::Weight, i4>;
  static_assert((kIntegers || kSame<typename Config::Weight, e2m1>) &&
                    kSame<typename Config::Input, e4m3> &&
                    !Config::kZeroPoint &&
                    (!Config::kSecondScale || Config::kSecondPerRow),
                "e4m3 operands need i4 or e2m1 codes without zero points");
  /// Number of groups along k in a pipeline stage: 1, or 4 (one per step).
  static constexpr int kGroups = Numbers::kBlockGroups;
  static_assert(kGroups == 1 || kGroups == 4,
                "a group along k must be whole stages, or one step");
  /// Second scales of the thread's weight rows.
  static constexpr int kSecond = WeightScales<Config>::kCount;
  float second[kSecond];
  __device__ __forceinline__ SlabSums(const float (&ofRows)[kSecond]) {
#pragma unroll
    for (int i = 0; i < kSecond; ++i)
      second[i] = ofRows[i];
  }

  /// Power of two that is a factor of each converted code. It lets the
  /// conversion use few instructions; finish() divides it out.
  static constexpr float kPower = kIntegers ? 0x1p-9f : 0x1p-6f;

  /// The part of a slab that one lane holds, for one pipeline stage.
  struct Slab {
    unsigned words[4 * kStepWords];
    unsigned scales; ///< shared-memory address of the first group's scales

    /// Converts the codes of step `step` to the four operand registers of an
    /// MMA.
    __device__ __forceinline__ void convert(int step, unsigned (&to)[4]) const {
#pragma unroll
      for (int part = 0; part < 4; ++part) {
        unsigned word = words[step * kStepWords + part / 2];
        if constexpr (kIntegers)
          to[part] = detail::floatsOfHalves(word >> part % 2 * 4);
        else if (part % 2)
          to[part] = detail::smallFloatsOfHalves<true>(word);
        else
          to[part] = detail::smallFloatsOfHalves<false>(word);
      }
    }

    /// Loads a group's scales for the thread's two weight rows, r and r + 8.
    __device__ __forceinline__ void loadScales(int group,
                                               float (&to)[2]) const {
      Scale of[2];
      loadNeighbours(scales + unsigned(group * 64 * int(sizeof(Scale))), of);
      to[0] = toFloat(of[0]), to[1] = toFloat(of[1]);
    }
  };

  /// Loads this lane's registers of one slab. `stage`: shared-memory address of
  /// the pipeline stage. `block`: block of 64 weight rows.
  static __device__ __forceinline__ Slab load(unsigned stage, int block,
                                              int warp, int lane) {
    using Stage = SlabStage<Config>;
    Slab slab;
    loadCodes<Codes>(
        stage + unsigned(block * Codes::kBlockBytes + warp * Codes::kSlabBytes),
        lane, slab.words);
    slab.scales =
        stage + unsigned(Stage::kScales + block * Stage::kScaleBytes +
                         (warp * 16 + lane / 4 * 2) * int(sizeof(Scale)));
    return slab;
  }

  /// Divides the totals by kPower, then multiplies them by the tokens' scales
  /// (see TokenScales). Two separate multiplications prevent a large scale from
  /// overflowing when it is combined with 1 / kPower.
  __device__ __forceinline__ void finish(Fragment &fragment, unsigned shared,
                                         int barrier, int thread) {
#pragma unroll
    for (int i = 0; i < Fragment::kSize; ++i)
      fragment.scale(i, 1 / kPower);
    this->multiply(fragment, shared, barrier, thread, [&](int row) {
      return Config::kSecondPerRow ? second[row] : 1.0f;
    });
  }
};

} // namespace moe
