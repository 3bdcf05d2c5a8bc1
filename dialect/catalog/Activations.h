//===- Activations.h - activations between the two matmuls ------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A gated activation computes f(gate) * up from the two halves of its input; an
// activation with the suffix _no_mul computes f(x). The policies in
// moe/math/activation.cuh implement the formulas, and the reference implements
// them again.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_CATALOG_ACTIVATIONS_H
#define MOEC_DIALECT_CATALOG_ACTIVATIONS_H

#include "dialect/catalog/Catalog.h"

namespace moec::catalog {

/// The function f of an activation, which is applied to the gate, or to the
/// only input if the activation is not gated.
struct ActivationFunction {
  std::string_view name;
  /// The C++ type of the function without parameters; "" if the function always
  /// has parameters.
  std::string_view policy = "";
  /// The C++ template for gate and up that receives the parameters; "" if the
  /// function has no parameters.
  std::string_view numbersPolicy = "";
  /// The C++ template for one input that receives the parameters, if the
  /// function is never gated.
  std::string_view plainNumbersPolicy = "";
  /// The header in templates/ that defines the policy; "" is
  /// moe/math/activation.cuh.
  std::string_view header = "";
};

// clang-format off
inline constexpr ActivationFunction kActivationFunctions[] = {
    {.name = "silu", .policy = "moe::activation::Silu", .numbersPolicy = "moe::activation::Swiglu"},
    {.name = "gelu", .policy = "moe::activation::Gelu"},
    {.name = "gelu_tanh", .policy = "moe::activation::GeluTanh"},
    {.name = "relu", .policy = "moe::activation::Relu", .header = "moe/math/relu.cuh"},
    {.name = "relu2", .policy = "moe::activation::Relu2"},
    {.name = "swiglustep", .numbersPolicy = "moe::activation::SwigluStep"},
    {.name = "situ", .numbersPolicy = "moe::activation::Situ"},
    {.name = "powlu", .numbersPolicy = "moe::activation::PowLu", .header = "moe/math/powlu.cuh"},
    {.name = "clamped_relu2", .plainNumbersPolicy = "moe::activation::ClampedRelu2", .header = "moe/math/clamped_relu2.cuh"},
};
// clang-format on

struct ActivationParameter {
  std::string_view name;
  std::string_view weight; ///< input f32 [experts] with per-expert values
};

inline constexpr ActivationParameter kActivationParameters[] = {
    {.name = "alpha", .weight = "activation_alpha"},
    {.name = "beta", .weight = "activation_beta"},
    {.name = "linear_beta", .weight = "activation_linear_beta"},
    {.name = "limit", .weight = "activation_limit"},
};

struct Activation {
  std::string_view name;
  std::string_view function; ///< a row of kActivationFunctions
  bool gated;
  WordList parameters = {}; ///< rows of kActivationParameters
  WordList needs = {};      ///< parameters that have no default
  /// Default values of the parameters; a limit of 0 means no limit.
  double alpha = 1, beta = 0, linearBeta = 0, limit = 0;
};

// clang-format off
inline constexpr Activation kActivations[] = {
    {.name = "silu", .function = "silu", .gated = true, .parameters = "limit"},
    {.name = "gelu", .function = "gelu", .gated = true},
    {.name = "gelu_tanh", .function = "gelu_tanh", .gated = true},
    {.name = "relu", .function = "relu", .gated = true},
    {.name = "relu2", .function = "relu2", .gated = true},
    {.name = "swigluoai", .function = "silu", .gated = true, .parameters = "alpha beta limit", .alpha = 1.702, .beta = 1, .limit = 7},
    {.name = "swigluoai_uninterleave", .function = "silu", .gated = true, .parameters = "alpha beta limit", .needs = "limit"},
    {.name = "swiglustep", .function = "swiglustep", .gated = true, .parameters = "limit", .limit = 7},
    {.name = "situ", .function = "situ", .gated = true, .parameters = "beta linear_beta", .beta = 4, .linearBeta = 25},
    {.name = "powlu", .function = "powlu", .gated = true, .parameters = "alpha limit", .alpha = 2.5},
    {.name = "silu_no_mul", .function = "silu", .gated = false},
    {.name = "gelu_no_mul", .function = "gelu", .gated = false},
    {.name = "gelu_tanh_no_mul", .function = "gelu_tanh", .gated = false},
    {.name = "relu_no_mul", .function = "relu", .gated = false},
    {.name = "relu2_no_mul", .function = "relu2", .gated = false},
    {.name = "clamped_relu2_no_mul", .function = "clamped_relu2", .gated = false, .parameters = "limit", .needs = "limit"},
};
// clang-format on

constexpr bool areActivationsWhole() {
  for (const Activation &row : kActivations)
    if (!find(kActivationFunctions, row.function) ||
        !areNames(row.parameters, kActivationParameters) ||
        !row.parameters.firstMissing(row.needs).empty())
      return false;
  return true;
}
static_assert(areActivationsWhole());

/// The parameters of an activation, with defaults for absent ones. A limit of 0
/// means no limit.
struct ActivationNumbers {
  double alpha, beta, linearBeta, limit;
};

} // namespace moec::catalog

#endif // MOEC_DIALECT_CATALOG_ACTIVATIONS_H
