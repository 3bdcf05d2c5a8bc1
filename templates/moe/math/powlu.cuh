//===- powlu.cuh - SiLU with an adaptive power ------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// PowLU of FlashInfer. Only kernels with this activation include this file.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/math/activation.cuh"

namespace moe::activation {

/// min(p(g), limit) u', with u' = u clamped to +-limit. p(g) is g^(alpha /
/// (sqrt(g) + 1)) sigmoid(g) for g > 0, else silu(g).
template <class Numbers> struct PowLu {
  static constexpr bool kGated = true;
  static constexpr bool kIdentity = false;
  static constexpr bool kOfExpert = Numbers::kOfExpert;
  [[no_unique_address]] Numbers numbers;

  /// Computes the activation without branches, because dropped rows may have
  /// any gate value. `base` is the power if gate > 0 and gate otherwise: it
  /// adds the power, which is 0 unless gate > 0, and min(gate, 0).
  __device__ __forceinline__ float apply(float gate, float up) const {
    float positive = fminf(fmaxf(gate, 0.0f), 3.402823466e38f);
    float power = numbers.alpha() / (sqrtf(positive) + 1.0f);
    float base = ptx::exp2Approximate(power * log2Approximate(positive)) +
                 fminf(gate, 0.0f);
    up = -numbers.below(-numbers.below(up));
    return numbers.below(base * sigmoid(gate)) * up;
  }

private:
  /// Returns log2(x). The error is at most 2^-22 for x from 0.5 to 2, and 2 ulp
  /// otherwise. The result is -inf for 0 and for subnormal values.
  static __device__ __forceinline__ float log2Approximate(float x) {
#ifdef __CUDA_ARCH__
    float power;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
#else
    return std::log2(x);
#endif
  }
};

} // namespace moe::activation
