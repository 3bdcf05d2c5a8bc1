//===- Activations.h - what lies between the two matmuls --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A gated activation eats two halves, gate and up: f(gate) * up; the others
// (suffix _no_mul) one. The formulas stand with the policies in
// templates/moe/math/activation.cuh and, once more, in the reference.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_CATALOG_ACTIVATIONS_H
#define MOEC_DIALECT_CATALOG_ACTIVATIONS_H

#include "dialect/catalog/Catalog.h"

namespace moec::catalog {

struct Activation {
  std::string_view name;
  /// silu, gelu, gelu_tanh, relu2, swiglustep, situ: what is applied.
  std::string_view function;
  bool gated;
  /// The C++ type of the function without a parameter; "" where it has always
  /// some.
  std::string_view policy;
  /// The C++ template of gate and up that takes the parameters.
  std::string_view numbersPolicy;
  /// Which of kActivationParameters it takes.
  std::string_view parameters;
  /// Which of them must be said.
  std::string_view needs;
  /// What they are where nothing is said; a limit of 0 is none.
  double alpha, beta, linearBeta, limit;
};

inline constexpr Activation kActivations[] = {
    {"silu", "silu", true, "moe::activation::Silu", "moe::activation::Swiglu",
     "limit", "", 1, 0, 0, 0},
    {"gelu", "gelu", true, "moe::activation::Gelu", "", "", "", 1, 0, 0, 0},
    {"gelu_tanh", "gelu_tanh", true, "moe::activation::GeluTanh", "", "", "", 1,
     0, 0, 0},
    {"relu2", "relu2", true, "moe::activation::Relu2", "", "", "", 1, 0, 0, 0},
    {"swigluoai", "silu", true, "", "moe::activation::Swiglu",
     "alpha beta limit", "", 1.702, 1, 0, 7},
    {"swigluoai_uninterleave", "silu", true, "", "moe::activation::Swiglu",
     "alpha beta limit", "limit", 1, 0, 0, 0},
    {"swiglustep", "swiglustep", true, "", "moe::activation::SwigluStep",
     "limit", "", 1, 0, 0, 7},
    {"situ", "situ", true, "", "moe::activation::Situ", "beta linear_beta", "",
     1, 4, 25, 0},
    {"silu_no_mul", "silu", false, "moe::activation::Silu", "", "", "", 1, 0, 0,
     0},
    {"gelu_no_mul", "gelu", false, "moe::activation::Gelu", "", "", "", 1, 0, 0,
     0},
    {"gelu_tanh_no_mul", "gelu_tanh", false, "moe::activation::GeluTanh", "",
     "", "", 1, 0, 0, 0},
    {"relu2_no_mul", "relu2", false, "moe::activation::Relu2", "", "", "", 1, 0,
     0, 0},
};

struct ActivationParameter {
  std::string_view name;
  std::string_view weight; ///< where each expert has its own: f32 [experts]
};

inline constexpr ActivationParameter kActivationParameters[] = {
    {"alpha", "activation_alpha"},
    {"beta", "activation_beta"},
    {"linear_beta", "activation_linear_beta"},
    {"limit", "activation_limit"},
};

/// The numbers of an activation, what was not said filled in. 0 for a limit
/// that there is not.
struct ActivationNumbers {
  double alpha, beta, linearBeta, limit;
};

} // namespace moec::catalog

#endif // MOEC_DIALECT_CATALOG_ACTIVATIONS_H
