//===- score.cuh - what an expert's logit is worth --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Score policies, f32. Both grow with the logit, so selection compares logits.
// A score that is not finite is handed on; the normalization gives it weight 0.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx.cuh"

namespace moe::routing {

__device__ __forceinline__ bool isFinite(float value) {
  return fabsf(value) <= 3.402823466e38f;
}

/// exp(x - max) / sum of exp, maximum and sum over the finite logits only.
struct Softmax {
  static constexpr bool kNeedsSum = true;
  static __device__ __forceinline__ float score(float logit, float maximum,
                                                float sum) {
    return expf(logit - maximum) / sum;
  }
};

/// The logit itself.
struct Identity {
  static constexpr bool kNeedsSum = false;
  static __device__ __forceinline__ float score(float logit, float, float) {
    return logit;
  }
};

} // namespace moe::routing
