//===- clamped_relu2.cuh - squared ReLU below a limit -----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// ClampedRelu2 of FlashInfer, the clamped_squared_relu of Megatron-LM. Only
// kernels with this activation include this file.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/math/activation.cuh"

namespace moe::activation {

/// (limit tanh(max(x, 0) / limit))^2, which is less than limit^2; max(x, 0)^2
/// if there is no limit. NaN stays NaN.
template <class Numbers> struct ClampedRelu2 {
  static constexpr bool kGated = false;
  static constexpr bool kIdentity = false;
  static constexpr bool kOfExpert = Numbers::kOfExpert;
  [[no_unique_address]] Numbers numbers;

  __device__ __forceinline__ float apply(float value) const {
    float infinity = __uint_as_float(0x7f800000u);
    float limit = numbers.below(infinity);
    float positive = value < 0.0f ? 0.0f : value;
    if (limit < infinity)
      positive = limit * tanhf(positive / limit);
    return positive * positive;
  }
};

} // namespace moe::activation
