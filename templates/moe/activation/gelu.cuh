//===- gelu.cuh - x * Phi(x) ------------------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// gelu(x) = x / 2 * (1 + erf(x / sqrt(2))), written with erfc so that the tail
// of negative x does not cancel.
//
//===----------------------------------------------------------------------===//

#pragma once

namespace moe::activation {

struct Gelu {
  static __device__ __forceinline__ float value(float x) {
    return 0.5f * x * erfcf(-0.70710678118654752f * x);
  }
};

} // namespace moe::activation
