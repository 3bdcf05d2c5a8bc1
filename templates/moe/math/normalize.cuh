//===- normalize.cuh - weights from selected scores -------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Normalization policies.
//
//   term()      returns the contribution of a finite score to the sum; without
//               kSums, returns the weight
//   weight()    with kSums: returns the weight from a term and the sum of the
//               token's terms, or 0 if the sum is 0
//   kNeedsBest  true if term() needs the largest selected score
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/math/score.cuh"

namespace moe::routing {

/// The score itself is the weight.
struct None {
  static constexpr bool kSums = false, kNeedsBest = false;
  static __device__ __forceinline__ float term(float score, float) {
    return score;
  }
};

/// Softmax over the selected scores.
struct SoftmaxSelected {
  static constexpr bool kSums = true, kNeedsBest = true;
  static __device__ __forceinline__ float term(float score, float best) {
    return expf(score - best);
  }
  static __device__ __forceinline__ float weight(float term, float sum) {
    return sum > 0.0f ? term / sum : 0.0f;
  }
};

/// The score divided by the sum of the selected scores.
struct Sum {
  static constexpr bool kSums = true, kNeedsBest = false;
  static __device__ __forceinline__ float term(float score, float) {
    return score;
  }
  static __device__ __forceinline__ float weight(float term, float sum) {
    return sum != 0.0f ? term / sum : 0.0f;
  }
};

/// The score divided by (sum + 1e-20), for scores whose sum over all experts is
/// not 1.
struct SumEpsilon : Sum {
  static __device__ __forceinline__ float weight(float term, float sum) {
    return term / (sum + 1e-20f);
  }
};

/// The sigmoid of a selected logit.
struct SigmoidSelected {
  static constexpr bool kSums = false, kNeedsBest = false;
  static __device__ __forceinline__ float term(float score, float) {
    return Sigmoid::score(score, 0.0f, 0.0f);
  }
};

} // namespace moe::routing
