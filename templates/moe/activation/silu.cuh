//===- silu.cuh - x * sigmoid(x) --------------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// silu(x) = x / (1 + exp(-x)). The quotient is the approximate one (2 ulp),
// which is 0 where exp(-x) leaves the range of f32: the limit.
//
//===----------------------------------------------------------------------===//

#pragma once

namespace moe::activation {

struct Silu {
  static __device__ __forceinline__ float value(float x) {
    return __fdividef(x, 1.0f + expf(-x));
  }
};

} // namespace moe::activation
