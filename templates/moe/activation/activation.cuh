//===- activation.cuh - gated and plain activations -------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An activation is a function of one variable used gated (f(gate) * up) or
// plain (f(value)); those with numbers of their own are gated as they are.
// All arithmetic is f32; the caller rounds once.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/activation/gelu.cuh"
#include "moe/activation/gelu_tanh.cuh"
#include "moe/activation/numbers.cuh"
#include "moe/activation/relu2.cuh"
#include "moe/activation/silu.cuh"
#include "moe/activation/situ.cuh"
#include "moe/activation/swiglu.cuh"
#include "moe/core/concepts.cuh"

namespace moe::activation {

/// The value itself.
struct None {
  static constexpr bool kGated = false;
  static constexpr bool kIdentity = true;
  static __device__ __forceinline__ float apply(float value) { return value; }
};

/// f(gate) * up.
template <class Function> struct Gated {
  static constexpr bool kGated = true;
  static constexpr bool kIdentity = false;
  static __device__ __forceinline__ float apply(float gate, float up) {
    static_assert(checkFunction<Function>());
    return Function::value(gate) * up;
  }
};

/// f(value).
template <class Function> struct Ungated {
  static constexpr bool kGated = false;
  static constexpr bool kIdentity = false;
  static __device__ __forceinline__ float apply(float value) {
    static_assert(checkFunction<Function>());
    return Function::value(value);
  }
};

} // namespace moe::activation

namespace moe {

/// The activation of an expert.
template <class Config>
__device__ __forceinline__ typename Config::Activation
activationOf(const typename Config::Args &args, int expert) {
  typename Config::Activation activation{};
  if constexpr (requires { requires Config::Activation::kOfExpert; })
    activation.numbers.read(args, expert);
  return activation;
}

} // namespace moe
