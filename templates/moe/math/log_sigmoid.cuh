//===- log_sigmoid.cuh - log-sigmoid scores ---------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The logarithm of the sigmoid as a score. The softmax over such scores yields
// each sigmoid divided by the sum of the sigmoids, even if the sigmoids are too
// small for f32. Only kernels of layers with this score include this file.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/math/score.cuh"

namespace moe::routing {

/// Returns log(1 / (1 + exp(-x))). NaN stays NaN.
__device__ __forceinline__ float logSigmoid(float logit) {
  return (logit < 0.0f ? logit : 0.0f) - log1pf(expf(-fabsf(logit)));
}

/// A score whose value is used in two ways. Weights are computed from the
/// logarithm; a bias is added to the sigmoid itself.
struct LogSigmoid {
  static constexpr bool kNeedsSum = false;

  struct Value {
    float logit;
    __device__ __forceinline__ operator float() const {
      return logSigmoid(logit);
    }
    friend __device__ __forceinline__ float operator+(Value value, float bias) {
      return Sigmoid::score(value.logit, 0.0f, 0.0f) + bias;
    }
  };

  static __device__ __forceinline__ Value score(float logit, float, float) {
    return {logit};
  }
};

} // namespace moe::routing
