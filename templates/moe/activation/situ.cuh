//===- situ.cuh - gates and values that saturate ----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// beta tanh(g / beta) sigmoid(g) * linearBeta tanh(u / linearBeta); where
// linearBeta is not above 0, the last factor is u.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/activation/numbers.cuh"
#include "moe/activation/sigmoid.cuh"

namespace moe::activation {

template <class Numbers> struct Situ {
  static constexpr bool kGated = true;
  static constexpr bool kIdentity = false;
  static constexpr bool kOfExpert = Numbers::kOfExpert;
  [[no_unique_address]] Numbers numbers;

  __device__ __forceinline__ float apply(float gate, float up) const {
    float beta = numbers.beta(), linear = numbers.linearBeta();
    if (linear > 0.0f)
      up = linear * tanhf(up / linear);
    return beta * tanhf(gate / beta) * sigmoid(gate) * up;
  }
};

} // namespace moe::activation
