//===- activation_numbers.cuh - parameters of each expert -------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Builds an expert's activation. If experts have separate activation
// parameters, they are read from the arguments activation_alpha,
// activation_beta, activation_linear_beta and activation_limit: each is float
// [experts] and present only if the layer has it.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/math/activation.cuh"

namespace moe {

/// Returns the activation with the parameters of `expert`.
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
