//===- relu.cuh - rectified linear unit -------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// ReLU, and with a gate ReGLU (Shazeer, "GLU Variants Improve Transformer",
// 2020), the activation of SmallThinker. Only kernels with this activation
// include this file.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/math/activation.cuh"

namespace moe::activation {

/// max(x, 0). NaN stays NaN.
struct Relu {
  static __device__ __forceinline__ float value(float x) {
    return x < 0.0f ? 0.0f : x;
  }
};

} // namespace moe::activation
