//===- scales_swapped.cuh - scales of swapped operands ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The scales of a Fragment whose rows are weight rows and whose columns are
// tokens. A thread has two weight rows, 8 apart, and many tokens: the scales of
// a group of 128 of their k come through shared memory, two neighbours at a
// time; those of a whole token are read once, at the end.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx_async.cuh"
#include "moe/core/types.cuh"
#include "moe/quant/scales.cuh"

namespace moe {

template <class Config, class Fragment> struct SwappedScales {
  using Layout = ScaleLayout<Config>;
  static constexpr int kTokens = Fragment::kSize * 2;
  /// A warpgroup's weight rows lie in one block, or one of gates and one of
  /// ups: tiles begin at multiples of 64.
  static constexpr int kParts = Layout::kByGroup ? Layout::kParts : 2;

  const float *rhs[2]; ///< of this thread's two weight rows
  float lhsScale[kTokens / 4];
  float rhsScale[2];

  /// rhsScales: of all experts.
  __device__ __forceinline__ SwappedScales(const float *rhsScales, int expert,
                                           int firstN,
                                           const Fragment &fragment) {
    const float *ofExpert = rhsScales + (long long)expert * Layout::kPerExpert;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      // Rows that do not exist take the scale of one that does.
      int n = minimum(firstN + fragment.row(half * 2), Config::kN - 1);
      rhs[half] = ofExpert + Layout::rhsIndex(n);
    }
  }

  /// Begins to read the weights' scales of a group of 128 along k.
  __device__ __forceinline__ void fetchWeights(int group) {
    if constexpr (Layout::kByGroup) {
      rhsScale[0] = rhs[0][group];
      rhsScale[1] = kParts == 2 ? rhs[1][group] : rhsScale[0];
    }
  }

  /// Reads the tokens' scales of a group at this shared address.
  __device__ __forceinline__ void fetchTokens(unsigned shared, int firstCol) {
    if constexpr (Layout::kByGroup) {
#pragma unroll
      for (int block = 0; block < kTokens / 8; ++block) {
        float2 pair =
            ptx::loadSharedPair(shared + unsigned(firstCol + block * 8) * 4);
        lhsScale[block * 2] = pair.x;
        lhsScale[block * 2 + 1] = pair.y;
      }
    }
  }

  /// What partial sum i of the fetched group is multiplied by.
  __device__ __forceinline__ float ofGroup(int i) const {
    if constexpr (Layout::kByGroup)
      return lhsScale[i / 4 * 2 + i % 2] * rhsScale[i % 4 / 2];
    else
      return 1.0f;
  }

  /// Multiplies the results where a scale is of a whole row or column. lhs: all
  /// scales of the tokens; source(r): which row of lhs is token r of the tile.
  template <class Source>
  __device__ __forceinline__ void finish(Fragment &fragment, const float *lhs,
                                         int rows, Source source) {
    if constexpr (!Layout::kByGroup) {
      float weights[2] = {*rhs[0], *rhs[1]};
#pragma unroll
      for (int i = 0; i < Fragment::kSize; i += 4) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          int token = fragment.col(i + j);
          float scale;
          if constexpr (Layout::kLhs == quant::LhsScale::Token)
            scale = lhs[source(token < rows ? token : 0)];
          else
            scale = lhs[0];
          fragment.scale(i + j, scale * weights[0]);
          fragment.scale(i + j + 2, scale * weights[1]);
        }
      }
    }
  }
};

} // namespace moe
