//===- normalize.cuh - the weights of a token, by a warp --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lane k < kTopK of a warp holds the k-th score. A score that is not finite has
// the weight 0 and adds 0 to the sum of terms. The warp sums in a fixed tree of
// lanes, so weights do not depend on timing.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx.cuh"
#include "moe/math/normalize.cuh"

namespace moe::routing {

/// Returns the weight of the lane's score. `finite`: the score is finite.
/// `active`: the lane has a score.
template <class Normalize>
__device__ __forceinline__ float weightOf(float score, bool finite,
                                          bool active) {
  if constexpr (!Normalize::kSums) {
    return finite ? Normalize::term(score, 0.0f) : 0.0f;
  } else {
    bool counts = finite && active;
    float best = 0.0f;
    if constexpr (Normalize::kNeedsBest)
      best = ptx::warpMaximum(counts ? score : -3.402823466e38f);
    float term = counts ? Normalize::term(score, best) : 0.0f;
    return Normalize::weight(term, ptx::warpSum(term));
  }
}

} // namespace moe::routing
