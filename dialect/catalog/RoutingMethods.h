//===- RoutingMethods.h - how experts are chosen ----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A routing method is three parts in a row: a score for each expert, a
// selection of top_k of them, a normalization of the selected scores. The
// words of score, select and normalize are what manifest.layer says and what
// the reference implements; the policies are types in templates/moe/routing.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_CATALOG_ROUTINGMETHODS_H
#define MOEC_DIALECT_CATALOG_ROUTINGMETHODS_H

#include "dialect/catalog/Catalog.h"

namespace moec::catalog {

struct RoutingMethod {
  std::string_view name;
  std::string_view score;     ///< identity, softmax
  std::string_view select;    ///< top_k
  std::string_view normalize; ///< none, softmax (over the selected), sum
  std::string_view scorePolicy, selectPolicy, normalizePolicy;
  /// Which of #moe.routing's fields the method takes: groups, bias, scale.
  std::string_view options;
};

inline constexpr RoutingMethod kRoutingMethods[] = {
    {"default", "softmax", "top_k", "none", "moe::routing::Softmax",
     "moe::routing::TopK", "moe::routing::None", ""},
    {"renormalize", "identity", "top_k", "softmax", "moe::routing::Identity",
     "moe::routing::TopK", "moe::routing::SoftmaxSelected", ""},
    {"renormalize_naive", "softmax", "top_k", "sum", "moe::routing::Softmax",
     "moe::routing::TopK", "moe::routing::Sum", ""},
    {"topk", "identity", "top_k", "none", "moe::routing::Identity",
     "moe::routing::TopK", "moe::routing::None", ""},
};

/// What an importer that knows a scoring function and flags, but no method,
/// writes instead of a method; moe-infer-routing replaces it.
inline constexpr std::string_view kAutoRouting = "auto";

} // namespace moec::catalog

#endif // MOEC_DIALECT_CATALOG_ROUTINGMETHODS_H
