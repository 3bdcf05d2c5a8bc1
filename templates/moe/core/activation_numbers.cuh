//===- activation_numbers.cuh - parameters of each expert -------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The activation of a Config with the parameters of one expert. The arguments
// activation_alpha, activation_beta, activation_linear_beta and
// activation_limit, float [experts], are present if experts have parameters of
// their own.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/math/activation.cuh"

namespace moe {

template <class Config>
__device__ __forceinline__ typename Config::Activation
activationOf(const typename Config::Args &args, int expert) {
  typename Config::Activation activation{};
  if constexpr (requires { requires Config::Activation::kOfExpert; }) {
    auto &numbers = activation.numbers;
    if constexpr (requires { args.activation_alpha; })
      numbers.ofAlpha = args.activation_alpha[expert];
    if constexpr (requires { args.activation_beta; })
      numbers.ofBeta = args.activation_beta[expert];
    if constexpr (requires { args.activation_linear_beta; })
      numbers.ofLinearBeta = args.activation_linear_beta[expert];
    if constexpr (requires { args.activation_limit; })
      numbers.ofLimit = args.activation_limit[expert];
  }
  return activation;
}

} // namespace moe
