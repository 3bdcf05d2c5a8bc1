//===- swiglu.cuh - silu with numbers of its own ----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Swiglu:     g' sigmoid(alpha g') (u' + beta), where g' = min(g, limit) and
//             u' = u within +-limit
// SwigluStep: min(silu(g), limit) u'
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/activation/numbers.cuh"
#include "moe/activation/silu.cuh"

namespace moe::activation {

template <class Numbers> struct Swiglu {
  static constexpr bool kGated = true;
  static constexpr bool kIdentity = false;
  static constexpr bool kOfExpert = Numbers::kOfExpert;
  [[no_unique_address]] Numbers numbers;

  __device__ __forceinline__ float apply(float gate, float up) const {
    gate = numbers.below(gate);
    up = -numbers.below(-numbers.below(up));
    return gate * sigmoid(numbers.alpha() * gate) * (up + numbers.beta());
  }
};

template <class Numbers> struct SwigluStep {
  static constexpr bool kGated = true;
  static constexpr bool kIdentity = false;
  static constexpr bool kOfExpert = Numbers::kOfExpert;
  [[no_unique_address]] Numbers numbers;

  __device__ __forceinline__ float apply(float gate, float up) const {
    up = -numbers.below(-numbers.below(up));
    return numbers.below(Silu::value(gate)) * up;
  }
};

} // namespace moe::activation
