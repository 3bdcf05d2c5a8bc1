//===- softcap.cuh - score of a capped logit --------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The cap of router logits. Only kernels of layers with a cap include this
// file.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/math/score.cuh"

namespace moe::routing {

/// Returns cap * tanh(logit / cap), which increases with the logit and is
/// within +-cap. NaN stays NaN.
__device__ __forceinline__ float softcapped(float logit, float cap) {
  return cap * tanhf(logit / cap);
}

/// The score of a logit that is first capped by Constants::kSoftcap.
template <class Score, class Constants> struct Softcapped {
  static constexpr bool kNeedsSum = false;
  static constexpr bool kBounded = true;
  static_assert(!Score::kNeedsSum,
                "scores that need a sum over experts cannot cap their logits");
  static __device__ __forceinline__ float score(float logit, float, float) {
    return Score::score(softcapped(logit, Constants::kSoftcap), 0.0f, 0.0f);
  }
};

} // namespace moe::routing
