//===- slab_sums.cuh - codes of slabs that scale sums -----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Codes of i4 in the order of fragments (math/slabs.cuh) that are multiplied by
// e4m3: a code less 8 is a number of e4m3. The sums of a stage are multiplied
// by the group's scale of the weight row and added to totals, which the tokens'
// scales multiply at the end.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/math/code_bytes.cuh"
#include "moe/quant/scales_swapped.cuh"
#include "moe/quant/slab_codes.cuh"

namespace moe {

template <class Config, class Fragment>
struct SlabSums : TokenScales<Config, Fragment> {
  using Numbers = SlabNumbers<Config>;
  using Codes = typename Numbers::Codes;
  using Scale = typename Config::Scale;
  static constexpr int kStepWords = Codes::kStepWords;
  static_assert(kSame<typename Config::Weight, i4> &&
                    kSame<typename Config::Input, e4m3> &&
                    !Config::kZeroPoint && !Config::kSecondScale,
                "codes of i4 without zero points are numbers of e4m3");
  static_assert(Numbers::kStageGroups == 1,
                "a stage must be of one group along k");

  /// One slab of a stage.
  struct Slab {
    unsigned words[4 * kStepWords];
    float scale[2]; ///< of a row and of the one 8 behind it

    /// The four registers of a step.
    __device__ __forceinline__ void convert(int step, unsigned (&to)[4]) const {
#pragma unroll
      for (int part = 0; part < 4; ++part)
        to[part] = detail::floatsOfHalves(words[step * kStepWords + part / 2] >>
                                          part % 2 * 4);
    }
  };

  /// The slab of a warp in a block of a stage. stage: its shared address.
  static __device__ __forceinline__ Slab load(unsigned stage, int block,
                                              int warp, int lane) {
    using Stage = SlabStage<Config>;
    Slab slab;
    loadCodes<Codes>(
        stage + unsigned(block * Codes::kBlockBytes + warp * Codes::kSlabBytes),
        lane, slab.words);
    Scale of[2];
    loadNeighbours(
        stage + unsigned(Stage::kScales + block * Stage::kScaleBytes +
                         (warp * 16 + lane / 4 * 2) * int(sizeof(Scale))),
        of);
    slab.scale[0] = toFloat(of[0]), slab.scale[1] = toFloat(of[1]);
    return slab;
  }

  /// Multiplies the totals by 2^9 and the tokens' scales: see TokenScales. Two
  /// steps, so that a large scale is no infinity.
  __device__ __forceinline__ void finish(Fragment &fragment, unsigned shared,
                                         int barrier, int thread) {
#pragma unroll
    for (int i = 0; i < Fragment::kSize; ++i)
      fragment.scale(i, 0x1p9f);
    this->multiply(fragment, shared, barrier, thread, [](int) { return 1.0f; });
  }
};

} // namespace moe
