//===- swiglu.cuh - silu with numbers of its own ----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Swiglu:     g' sigmoid(kAlpha g') (u' + kBeta), where g' = min(g, kLimit) and
//             u' = u within +-kLimit
// SwigluStep: min(silu(g), kLimit) u'
//
// Numbers has kAlpha, kBeta and kLimit; a limit that is not there is infinite.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/activation/silu.cuh"

namespace moe::activation {

/// `value` within +-limit; NaN stays.
__device__ __forceinline__ float within(float value, float limit) {
  return value > limit ? limit : value < -limit ? -limit : value;
}

template <class Numbers> struct Swiglu {
  static constexpr bool kGated = true;
  static constexpr bool kIdentity = false;
  static __device__ __forceinline__ float apply(float gate, float up) {
    gate = gate > Numbers::kLimit ? Numbers::kLimit : gate;
    return __fdividef(gate, 1.0f + expf(-Numbers::kAlpha * gate)) *
           (within(up, Numbers::kLimit) + Numbers::kBeta);
  }
};

template <class Numbers> struct SwigluStep {
  static constexpr bool kGated = true;
  static constexpr bool kIdentity = false;
  static __device__ __forceinline__ float apply(float gate, float up) {
    float value = Silu::value(gate);
    value = value > Numbers::kLimit ? Numbers::kLimit : value;
    return value * within(up, Numbers::kLimit);
  }
};

} // namespace moe::activation
