//===- normalize.cuh - weights from the selected scores ---------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Normalization policies. Lane k < kTopK of a warp holds the k-th score. A
// score that is not finite has weight 0 and counts 0 in sums; where the sum is
// 0 each of the kTopK weights is 1 / kTopK. Sums run over a fixed tree of
// lanes, so weights do not depend on timing.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx.cuh"
#include "moe/routing/score.cuh"

namespace moe::routing {

/// The score.
struct None {
  template <int kTopK>
  static __device__ __forceinline__ float weight(float score, bool finite,
                                                 bool) {
    return finite ? score : 0.0f;
  }
};

/// Softmax over the selected scores.
struct SoftmaxSelected {
  template <int kTopK>
  static __device__ __forceinline__ float weight(float score, bool finite,
                                                 bool active) {
    bool counts = finite && active;
    float best = counts ? score : -3.402823466e38f;
    best = ptx::warpMaximum(best);
    float term = counts ? expf(score - best) : 0.0f;
    float sum = ptx::warpSum(term);
    return sum > 0.0f ? term / sum : 1.0f / kTopK;
  }
};

/// The score over the sum of the selected scores.
struct Sum {
  template <int kTopK>
  static __device__ __forceinline__ float weight(float score, bool finite,
                                                 bool active) {
    float term = finite && active ? score : 0.0f;
    float sum = ptx::warpSum(term);
    return sum != 0.0f ? term / sum : 1.0f / kTopK;
  }
};

/// The same where scores are not of a sum of 1: the sum + 1e-20.
struct SumEpsilon {
  template <int kTopK>
  static __device__ __forceinline__ float weight(float score, bool finite,
                                                 bool active) {
    float term = finite && active ? score : 0.0f;
    float sum = ptx::warpSum(term);
    return sum != 0.0f ? term / (sum + 1e-20f) : 1.0f / kTopK;
  }
};

/// The sigmoid of a selected logit.
struct SigmoidSelected {
  template <int kTopK>
  static __device__ __forceinline__ float weight(float score, bool finite,
                                                 bool) {
    return finite ? Sigmoid::score(score, 0.0f, 0.0f) : 0.0f;
  }
};

} // namespace moe::routing
