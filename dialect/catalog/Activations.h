//===- Activations.h - what lies between the two matmuls --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A gated activation eats two halves, gate and up: f(gate) * up; the others
// (suffix _no_mul) one. The formulas stand with the policies in
// templates/moe/activation and, once more, in the reference.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_CATALOG_ACTIVATIONS_H
#define MOEC_DIALECT_CATALOG_ACTIVATIONS_H

#include "dialect/catalog/Catalog.h"

namespace moec::catalog {

struct Activation {
  std::string_view name;
  std::string_view function; ///< silu, gelu, gelu_tanh: what is applied
  bool gated;
  std::string_view policy; ///< the function's C++ type
  /// Which of #moe.activation's parameters it takes: alpha, beta,
  /// linear_beta, limit.
  std::string_view parameters;
};

inline constexpr Activation kActivations[] = {
    {"silu", "silu", true, "moe::activation::Silu", ""},
    {"gelu", "gelu", true, "moe::activation::Gelu", ""},
    {"gelu_tanh", "gelu_tanh", true, "moe::activation::GeluTanh", ""},
    {"silu_no_mul", "silu", false, "moe::activation::Silu", ""},
    {"gelu_no_mul", "gelu", false, "moe::activation::Gelu", ""},
    {"gelu_tanh_no_mul", "gelu_tanh", false, "moe::activation::GeluTanh", ""},
};

} // namespace moec::catalog

#endif // MOEC_DIALECT_CATALOG_ACTIVATIONS_H
