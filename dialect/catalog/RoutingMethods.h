//===- RoutingMethods.h - routing methods -----------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A routing method consists of a score for each expert, a selection of top_k
// experts, and a normalization of the selected scores. manifest.layer stores
// the words in `score`, `select` and `normalize`, and the reference implements
// them. The policies are types in templates/moe/routing.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_CATALOG_ROUTINGMETHODS_H
#define MOEC_DIALECT_CATALOG_ROUTINGMETHODS_H

#include "dialect/catalog/Catalog.h"

namespace moec::catalog {

/// A step of routing and the C++ type that implements it.
struct RoutingStep {
  std::string_view name;
  std::string_view policy;
  /// The header in templates/ that defines the policy, if it is not the header
  /// of the other steps.
  std::string_view header = {};
};

/// log_sigmoid: weights are computed from the logarithm of the sigmoid, and
/// selection keys from the sigmoid. sparsemixer: each selection round
/// computes a softmax over the remaining experts whose logits are close to the
/// largest one. drawn: a pseudo-random value
/// for each token and expert. drawn_normal: like drawn, with larger values for
/// experts in the middle.
inline constexpr RoutingStep kScores[] = {
    {.name = "identity", .policy = "moe::routing::Identity"},
    {.name = "softmax", .policy = "moe::routing::Softmax"},
    {.name = "sigmoid", .policy = "moe::routing::Sigmoid"},
    {.name = "log_sigmoid",
     .policy = "moe::routing::LogSigmoid",
     .header = "moe/math/log_sigmoid.cuh"},
    {.name = "sqrtsoftplus", .policy = "moe::routing::SqrtSoftplus"},
    {.name = "sparsemixer", .policy = "moe::routing::SparseMixer"},
    {.name = "drawn", .policy = "moe::routing::Drawn"},
    {.name = "drawn_normal", .policy = "moe::routing::DrawnNormal"},
    {.name = "none", .policy = "moe::routing::Identity"},
};

/// top_k: the experts with the best keys; if there are groups, only experts of
/// the best groups. top_k_per_group: the best top_k / groups experts of every
/// group. given: the caller passes the ids.
inline constexpr RoutingStep kSelections[] = {
    {.name = "top_k", .policy = "moe::routing::TopK"},
    {.name = "top_k_per_group", .policy = "moe::routing::TopKPerGroup"},
    {.name = "given", .policy = "moe::routing::Given"},
};

/// softmax: the weights are the softmax over the selected scores. sigmoid: each
/// weight is the sigmoid of the selected logit. sum: the selected scores are
/// divided by their sum. sum_epsilon: the selected scores are divided by their
/// sum plus the epsilon of #moe.routing, by default 1e-20.
inline constexpr RoutingStep kNormalizations[] = {
    {.name = "none", .policy = "moe::routing::None"},
    {.name = "softmax", .policy = "moe::routing::SoftmaxSelected"},
    {.name = "sigmoid", .policy = "moe::routing::SigmoidSelected"},
    {.name = "sum", .policy = "moe::routing::Sum"},
    {.name = "sum_epsilon", .policy = "moe::routing::SumEpsilon"},
};

struct RoutingMethod {
  std::string_view name;
  std::string_view score;     ///< a row of kScores
  std::string_view select;    ///< a row of kSelections
  std::string_view normalize; ///< a row of kNormalizations
  /// The fields of #moe.routing and options of the layer that the method
  /// supports: groups, bias, scale, expert_scale, table, softcap, logit_scale,
  /// epsilon, sinks.
  WordList options = {};
  /// The options that the method requires, or weight_on_input if the weights
  /// must multiply x. A required bias and weight_on_input are set implicitly.
  WordList needs = {};
};

// clang-format off
inline constexpr RoutingMethod kRoutingMethods[] = {
    {.name = "default", .score = "softmax", .select = "top_k", .normalize = "none", .options = "groups scale expert_scale"},
    {.name = "renormalize", .score = "identity", .select = "top_k", .normalize = "softmax", .options = "groups scale expert_scale"},
    {.name = "renormalize_naive", .score = "softmax", .select = "top_k", .normalize = "sum", .options = "groups scale expert_scale"},
    {.name = "topk", .score = "identity", .select = "top_k", .normalize = "none", .options = "groups scale expert_scale"},
    {.name = "sigmoid", .score = "sigmoid", .select = "top_k", .normalize = "none", .options = "groups scale expert_scale softcap logit_scale"},
    {.name = "sigmoid_renorm", .score = "sigmoid", .select = "top_k", .normalize = "sum_epsilon", .options = "groups scale expert_scale softcap logit_scale epsilon"},
    {.name = "topk_sigmoid", .score = "identity", .select = "top_k", .normalize = "sigmoid", .options = "groups scale expert_scale"},
    {.name = "topk_sigmoid_bias", .score = "identity", .select = "top_k", .normalize = "sigmoid", .options = "bias scale expert_scale",
     .needs = "bias"},
    {.name = "llama4", .score = "identity", .select = "top_k", .normalize = "sigmoid", .options = "expert_scale",
     .needs = "weight_on_input"},
    {.name = "sigmoid_bias", .score = "sigmoid", .select = "top_k", .normalize = "none", .options = "bias groups scale expert_scale softcap logit_scale",
     .needs = "bias"},
    {.name = "deepseek_v3", .score = "sigmoid", .select = "top_k", .normalize = "sum_epsilon", .options = "bias groups scale expert_scale softcap logit_scale epsilon",
     .needs = "bias"},
    {.name = "minimax2", .score = "sigmoid", .select = "top_k", .normalize = "sum_epsilon", .options = "bias expert_scale softcap logit_scale epsilon",
     .needs = "bias"},
    {.name = "sigmoid_sinks", .score = "log_sigmoid", .select = "top_k", .normalize = "softmax",
     .options = "bias scale expert_scale sinks", .needs = "sinks"},
    {.name = "deepseek_v4", .score = "sqrtsoftplus", .select = "top_k", .normalize = "sum_epsilon",
     .options = "bias scale expert_scale table softcap logit_scale epsilon"},
    {.name = "sqrtsoftplus", .score = "sqrtsoftplus", .select = "top_k", .normalize = "none", .options = "bias scale expert_scale table softcap logit_scale"},
    {.name = "ernie", .score = "softmax", .select = "top_k", .normalize = "sum", .options = "bias groups scale expert_scale",
     .needs = "bias"},
    {.name = "longcat", .score = "softmax", .select = "top_k", .normalize = "none", .options = "bias groups scale expert_scale",
     .needs = "bias"},
    {.name = "sparsemixer", .score = "sparsemixer", .select = "top_k", .normalize = "none", .options = "scale expert_scale"},
    {.name = "intern_s1", .score = "softmax", .select = "top_k_per_group", .normalize = "none", .options = "groups scale expert_scale",
     .needs = "groups"},
    {.name = "intern_s1_renorm", .score = "softmax", .select = "top_k_per_group", .normalize = "sum",
     .options = "groups scale expert_scale", .needs = "groups"},
    {.name = "simulated", .score = "drawn", .select = "top_k", .normalize = "sum"},
    {.name = "simulated_normal", .score = "drawn_normal", .select = "top_k", .normalize = "sum"},
    {.name = "custom", .score = "none", .select = "given", .normalize = "none"},
};
// clang-format on

constexpr bool areRoutingMethodsWhole() {
  for (const RoutingMethod &row : kRoutingMethods)
    if (!find(kScores, row.score) || !find(kSelections, row.select) ||
        !find(kNormalizations, row.normalize))
      return false;
  return true;
}
static_assert(areRoutingMethodsWhole());

/// A placeholder that importers write if a config has only a scoring function
/// and flags; moe-infer-routing replaces it.
inline constexpr std::string_view kAutoRouting = "auto";

} // namespace moec::catalog

#endif // MOEC_DIALECT_CATALOG_ROUTINGMETHODS_H
