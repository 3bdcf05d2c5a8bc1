//===- relu2.cuh - the square of relu ---------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// relu2(x) = max(x, 0)^2.
//
//===----------------------------------------------------------------------===//

#pragma once

namespace moe::activation {

struct Relu2 {
  static __device__ __forceinline__ float value(float x) {
    float positive = fmaxf(x, 0.0f);
    return positive * positive;
  }
};

} // namespace moe::activation
