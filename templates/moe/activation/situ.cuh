//===- situ.cuh - gates and values that saturate ----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// kBeta tanh(g / kBeta) sigmoid(g) * kLinearBeta tanh(u / kLinearBeta); with
// kLinearBeta = 0 the last factor is u.
//
//===----------------------------------------------------------------------===//

#pragma once

namespace moe::activation {

template <class Numbers> struct Situ {
  static constexpr bool kGated = true;
  static constexpr bool kIdentity = false;
  static __device__ __forceinline__ float apply(float gate, float up) {
    float value = Numbers::kBeta * tanhf(gate / Numbers::kBeta);
    value = __fdividef(value, 1.0f + expf(-gate));
    if constexpr (Numbers::kLinearBeta > 0.0f)
      up = Numbers::kLinearBeta * tanhf(up / Numbers::kLinearBeta);
    return value * up;
  }
};

} // namespace moe::activation
