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
  /// identity, softmax, sigmoid, sqrtsoftplus, sparsemixer (a softmax over
  /// those near the best, round by round), drawn (a number for each token and
  /// expert), drawn_normal (one that is larger for experts in the middle),
  /// none.
  std::string_view score;
  /// top_k (with groups: of the best of them), top_k_per_group, given.
  std::string_view select;
  /// none, softmax or sigmoid (of the selected), sum, sum_epsilon (+ 1e-20).
  std::string_view normalize;
  std::string_view scorePolicy, selectPolicy, normalizePolicy;
  /// Which of #moe.routing's fields and of the layer's options the method
  /// takes: groups, bias, scale, expert_scale, table.
  std::string_view options;
  /// Which of them it cannot do without, or weight_on_input: that weights
  /// multiply x. A bias and that need no saying.
  std::string_view needs;
};

inline constexpr RoutingMethod kRoutingMethods[] = {
    {"default", "softmax", "top_k", "none", "moe::routing::Softmax",
     "moe::routing::TopK", "moe::routing::None", "groups scale expert_scale",
     ""},
    {"renormalize", "identity", "top_k", "softmax", "moe::routing::Identity",
     "moe::routing::TopK", "moe::routing::SoftmaxSelected",
     "groups scale expert_scale", ""},
    {"renormalize_naive", "softmax", "top_k", "sum", "moe::routing::Softmax",
     "moe::routing::TopK", "moe::routing::Sum", "groups scale expert_scale",
     ""},
    {"topk", "identity", "top_k", "none", "moe::routing::Identity",
     "moe::routing::TopK", "moe::routing::None", "groups scale expert_scale",
     ""},
    {"sigmoid", "sigmoid", "top_k", "none", "moe::routing::Sigmoid",
     "moe::routing::TopK", "moe::routing::None", "groups scale expert_scale",
     ""},
    {"sigmoid_renorm", "sigmoid", "top_k", "sum_epsilon",
     "moe::routing::Sigmoid", "moe::routing::TopK", "moe::routing::SumEpsilon",
     "groups scale expert_scale", ""},
    {"topk_sigmoid", "identity", "top_k", "sigmoid", "moe::routing::Identity",
     "moe::routing::TopK", "moe::routing::SigmoidSelected",
     "groups scale expert_scale", ""},
    {"llama4", "identity", "top_k", "sigmoid", "moe::routing::Identity",
     "moe::routing::TopK", "moe::routing::SigmoidSelected", "expert_scale",
     "weight_on_input"},
    {"sigmoid_bias", "sigmoid", "top_k", "none", "moe::routing::Sigmoid",
     "moe::routing::TopK", "moe::routing::None",
     "bias groups scale expert_scale", "bias"},
    {"deepseek_v3", "sigmoid", "top_k", "sum_epsilon", "moe::routing::Sigmoid",
     "moe::routing::TopK", "moe::routing::SumEpsilon",
     "bias groups scale expert_scale", "bias"},
    {"minimax2", "sigmoid", "top_k", "sum_epsilon", "moe::routing::Sigmoid",
     "moe::routing::TopK", "moe::routing::SumEpsilon", "bias expert_scale",
     "bias"},
    {"deepseek_v4", "sqrtsoftplus", "top_k", "sum_epsilon",
     "moe::routing::SqrtSoftplus", "moe::routing::TopK",
     "moe::routing::SumEpsilon", "bias scale expert_scale table", ""},
    {"sqrtsoftplus", "sqrtsoftplus", "top_k", "none",
     "moe::routing::SqrtSoftplus", "moe::routing::TopK", "moe::routing::None",
     "bias scale expert_scale table", ""},
    {"ernie", "softmax", "top_k", "sum", "moe::routing::Softmax",
     "moe::routing::TopK", "moe::routing::Sum",
     "bias groups scale expert_scale", "bias"},
    {"longcat", "softmax", "top_k", "none", "moe::routing::Softmax",
     "moe::routing::TopK", "moe::routing::None",
     "bias groups scale expert_scale", "bias"},
    {"sparsemixer", "sparsemixer", "top_k", "none", "moe::routing::SparseMixer",
     "moe::routing::TopK", "moe::routing::None", "scale expert_scale", ""},
    {"intern_s1", "softmax", "top_k_per_group", "none", "moe::routing::Softmax",
     "moe::routing::TopKPerGroup", "moe::routing::None",
     "groups scale expert_scale", "groups"},
    {"intern_s1_renorm", "softmax", "top_k_per_group", "sum",
     "moe::routing::Softmax", "moe::routing::TopKPerGroup", "moe::routing::Sum",
     "groups scale expert_scale", "groups"},
    {"simulated", "drawn", "top_k", "sum", "moe::routing::Drawn",
     "moe::routing::TopK", "moe::routing::Sum", "", ""},
    {"simulated_normal", "drawn_normal", "top_k", "sum",
     "moe::routing::DrawnNormal", "moe::routing::TopK", "moe::routing::Sum", "",
     ""},
    {"custom", "none", "given", "none", "moe::routing::Identity",
     "moe::routing::Given", "moe::routing::None", "", ""},
};

/// What an importer that knows a scoring function and flags, but no method,
/// writes instead of a method; moe-infer-routing replaces it.
inline constexpr std::string_view kAutoRouting = "auto";

} // namespace moec::catalog

#endif // MOEC_DIALECT_CATALOG_ROUTINGMETHODS_H
