//===- silu.cuh - x * sigmoid(x) --------------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// silu(x) = x / (1 + exp(-x)), -0 where exp(-x) leaves the range of f32.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/activation/sigmoid.cuh"

namespace moe::activation {

struct Silu {
  static __device__ __forceinline__ float value(float x) {
    return x * sigmoid(x);
  }
};

} // namespace moe::activation
