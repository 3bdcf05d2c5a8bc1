//===- activation.cuh - gated and plain activations -------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An activation is a function of one variable that is used gated (f(gate) * up)
// or plain (f(value)). Activations with parameters combine gate and up values
// themselves. All arithmetic is f32; the caller rounds once.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/math/instructions.cuh"

namespace moe::activation {

//===--- functions of one variable ----------------------------------------===//

/// Returns 1 / (1 + exp(-x)) in four instructions, since an epilogue computes
/// one for each value. Because the exponent is rounded, the relative error is
/// up to |x| * 2^-24 plus a few ulp. If exp(-x) overflows, the result is 0, the
/// limit. NaN stays NaN.
__device__ __forceinline__ float sigmoid(float x) {
  float power = ptx::exp2Approximate(x * -1.44269504f);
  return ptx::reciprocalApproximate(1.0f + power);
}

/// x / (1 + exp(-x)). The result is -0 if exp(-x) overflows.
struct Silu {
  static __device__ __forceinline__ float value(float x) {
    return x * sigmoid(x);
  }
};

/// x / 2 * (1 + erf(x / sqrt(2))), computed with erfc so that the tail of
/// negative x does not cancel.
struct Gelu {
  static __device__ __forceinline__ float value(float x) {
    return 0.5f * x * erfcf(-0.70710678118654752f * x);
  }
};

/// x / 2 * (1 + tanh(z)), z = sqrt(2 / pi) * (x + 0.044715 x^3). The factor (1
/// + tanh(z)) / 2 is computed as 1 / (1 + exp(-2 z)), which does not cancel for
/// z < 0.
struct GeluTanh {
  static __device__ __forceinline__ float value(float x) {
    float z = 0.79788456080286536f * (x + 0.044715f * x * x * x);
    return x * sigmoid(2.0f * z);
  }
};

/// max(x, 0)^2. NaN stays NaN.
struct Relu2 {
  static __device__ __forceinline__ float value(float x) {
    float positive = x < 0.0f ? 0.0f : x;
    return positive * positive;
  }
};

/// Checks the members of an activation function of one variable.
template <class F> constexpr bool checkFunction() {
  static_assert(requires { F::value(0.0f); }, "F lacks value(float)");
  return true;
}

/// The identity.
struct None {
  static constexpr bool kGated = false;
  static constexpr bool kIdentity = true;
  static __device__ __forceinline__ float apply(float value) { return value; }
};

/// Gated activation: f(gate) * up.
template <class Function> struct Gated {
  static constexpr bool kGated = true;
  static constexpr bool kIdentity = false;
  static __device__ __forceinline__ float apply(float gate, float up) {
    static_assert(checkFunction<Function>());
    return Function::value(gate) * up;
  }
};

/// Activation without a gate: f(value).
template <class Function> struct Ungated {
  static constexpr bool kGated = false;
  static constexpr bool kIdentity = false;
  static __device__ __forceinline__ float apply(float value) {
    static_assert(checkFunction<Function>());
    return Function::value(value);
  }
};

//===--- activations with parameters --------------------------------------===//

/// Parameters that are the same for all experts of the layer. Constants has
/// kAlpha, kBeta, kLinearBeta and kLimit (0: no limit).
template <class Constants> struct OfLayer {
  static constexpr bool kOfExpert = false;
  static __device__ __forceinline__ float alpha() { return Constants::kAlpha; }
  static __device__ __forceinline__ float beta() { return Constants::kBeta; }
  static __device__ __forceinline__ float linearBeta() {
    return Constants::kLinearBeta;
  }
  /// Returns the smaller of value and limit. NaN stays NaN.
  static __device__ __forceinline__ float below(float value) {
    if constexpr (Constants::kLimit > 0.0f)
      return value > Constants::kLimit ? Constants::kLimit : value;
    else
      return value;
  }
};

/// Parameters of one expert. The members of Constants are the defaults of
/// parameters that experts do not have.
template <class Constants> struct OfExpert {
  static constexpr bool kOfExpert = true;
  float ofAlpha = Constants::kAlpha, ofBeta = Constants::kBeta;
  float ofLinearBeta = Constants::kLinearBeta, ofLimit = Constants::kLimit;

  __device__ __forceinline__ float alpha() const { return ofAlpha; }
  __device__ __forceinline__ float beta() const { return ofBeta; }
  __device__ __forceinline__ float linearBeta() const { return ofLinearBeta; }
  __device__ __forceinline__ float below(float value) const {
    return ofLimit > 0.0f && value > ofLimit ? ofLimit : value;
  }
};

/// g' sigmoid(alpha g') (u' + beta), with g' = min(g, limit) and u' = u clamped
/// to +-limit.
template <class Numbers> struct Swiglu {
  static constexpr bool kGated = true;
  static constexpr bool kIdentity = false;
  static constexpr bool kOfExpert = Numbers::kOfExpert;
  [[no_unique_address]] Numbers numbers;

  __device__ __forceinline__ float apply(float gate, float up) const {
    gate = numbers.below(gate);
    up = -numbers.below(-numbers.below(up));
    return gate * sigmoid(numbers.alpha() * gate) * (up + numbers.beta());
  }
};

/// min(silu(g), limit) u', with u' = u clamped to +-limit.
template <class Numbers> struct SwigluStep {
  static constexpr bool kGated = true;
  static constexpr bool kIdentity = false;
  static constexpr bool kOfExpert = Numbers::kOfExpert;
  [[no_unique_address]] Numbers numbers;

  __device__ __forceinline__ float apply(float gate, float up) const {
    up = -numbers.below(-numbers.below(up));
    return numbers.below(Silu::value(gate)) * up;
  }
};

/// beta tanh(g / beta) sigmoid(g) * linearBeta tanh(u / linearBeta). If
/// linearBeta is not positive, the last factor is u.
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
