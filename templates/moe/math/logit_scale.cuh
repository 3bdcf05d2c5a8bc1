//===- logit_scale.cuh - score of a logit with a factor ---------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Only kernels of layers with a logit factor include this file.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/math/score.cuh"

namespace moe::routing {

/// The score of a logit that is first multiplied by Constants::kLogitScale,
/// which is positive.
template <class Score, class Constants> struct ScaledLogit {
  static constexpr bool kNeedsSum = false;
  static constexpr bool kBounded = kIsBounded<Score>;
  static_assert(
      !Score::kNeedsSum,
      "scores that need a sum over experts cannot scale their logits");
  static __device__ __forceinline__ float score(float logit, float, float) {
    return Score::score(logit * Constants::kLogitScale, 0.0f, 0.0f);
  }
};

} // namespace moe::routing
