//===- gelu_tanh.cuh - the tanh form of gelu --------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// gelu_tanh(x) = x / 2 * (1 + tanh(z)), z = sqrt(2 / pi) * (x + 0.044715 x^3).
// (1 + tanh(z)) / 2 is 1 / (1 + exp(-2 z)), which does not cancel for z < 0.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/activation/sigmoid.cuh"

namespace moe::activation {

struct GeluTanh {
  static __device__ __forceinline__ float value(float x) {
    float z = 0.79788456080286536f * (x + 0.044715f * x * x * x);
    return x * sigmoid(2.0f * z);
  }
};

} // namespace moe::activation
