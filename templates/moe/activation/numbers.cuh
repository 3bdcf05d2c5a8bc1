//===- numbers.cuh - the numbers of an activation ---------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Constants has kAlpha, kBeta, kLinearBeta and kLimit (0: no limit). They are
// those of the layer, or stand in for what an expert has no number of its own
// for. Those of experts are the arguments activation_alpha, activation_beta,
// activation_linear_beta and activation_limit, float [experts].
//
//===----------------------------------------------------------------------===//

#pragma once

namespace moe::activation {

/// The same for all experts.
template <class Constants> struct OfLayer {
  static constexpr bool kOfExpert = false;
  static __device__ __forceinline__ float alpha() { return Constants::kAlpha; }
  static __device__ __forceinline__ float beta() { return Constants::kBeta; }
  static __device__ __forceinline__ float linearBeta() {
    return Constants::kLinearBeta;
  }
  /// The lesser of value and limit; NaN stays.
  static __device__ __forceinline__ float below(float value) {
    if constexpr (Constants::kLimit > 0.0f)
      return value > Constants::kLimit ? Constants::kLimit : value;
    else
      return value;
  }
};

/// Each expert's own.
template <class Constants> struct OfExpert {
  static constexpr bool kOfExpert = true;
  float ofAlpha, ofBeta, ofLinearBeta, ofLimit;

  template <class Args>
  __device__ __forceinline__ void read(const Args &args, int expert) {
    ofAlpha = Constants::kAlpha;
    ofBeta = Constants::kBeta;
    ofLinearBeta = Constants::kLinearBeta;
    ofLimit = Constants::kLimit;
    if constexpr (requires { args.activation_alpha; })
      ofAlpha = args.activation_alpha[expert];
    if constexpr (requires { args.activation_beta; })
      ofBeta = args.activation_beta[expert];
    if constexpr (requires { args.activation_linear_beta; })
      ofLinearBeta = args.activation_linear_beta[expert];
    if constexpr (requires { args.activation_limit; })
      ofLimit = args.activation_limit[expert];
  }
  __device__ __forceinline__ float alpha() const { return ofAlpha; }
  __device__ __forceinline__ float beta() const { return ofBeta; }
  __device__ __forceinline__ float linearBeta() const { return ofLinearBeta; }
  __device__ __forceinline__ float below(float value) const {
    return ofLimit > 0.0f && value > ofLimit ? ofLimit : value;
  }
};

} // namespace moe::activation
