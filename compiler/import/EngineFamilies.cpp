//===- EngineFamilies.cpp - families without a Transformers class ---------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Families without a class in Transformers. Their rows list the keys that vLLM
// reads. vLLM's MoE blocks always use SiLU; they reject or ignore any other
// activation in the config.
//
//===----------------------------------------------------------------------===//

#include "compiler/import/Families.h"

using namespace moec;
using namespace moec::compiler;

namespace {

/// Returns the key of a required count; null means 0.
constexpr Key<int64_t> countOrNull(WordList names) {
  return {names, std::nullopt, int64_t(0)};
}

constexpr FamilyActivation kSilu = {.function = only("hidden_act", "silu")};

constexpr ModelFamily kEngineFamilies[] = {
    {.architectures = "AliceAIForCausalLM",
     .modelTypes = "alice_ai",
     .source = "none: required",
     .routing = {.scoring = only("scoring_func", "sigmoid"),
                 .renormalize = required("norm_topk_prob"),
                 .bias = always(true)},
     .activation = kSilu,
     .shared = {.count = always<int64_t>(1),
                .width = required("shared_expert_intermediate_size"),
                .gate = true}},
    // Ling 3. A text-only config may have the model type that Transformers uses
    // for Ling 2.5.
    {.architectures = "BailingMoeV3ForCausalLM "
                      "BailingMoeV3VLForConditionalGeneration",
     .modelTypes = "bailing_moe_v3 bailing_moe_v3_vl",
     .source = "none: required",
     .part = "text_config",
     .otherTypes = "bailing_hybrid",
     .routing = {.scoring = only("score_function scoring_func", "sigmoid"),
                 .renormalize = only("norm_topk_prob", true),
                 .groups = required("n_group"),
                 .topGroups = required("topk_group"),
                 .topkMethod = only("topk_method", "noaux_tc"),
                 .bias = only("moe_router_enable_expert_bias", true),
                 .scale = required("routed_scaling_factor"),
                 .f32Logits = always(true)},
     .activation = {.function = only("hidden_act", "silu"),
                    .limitsKey = "expert_swiglu_limit_list",
                    .limited = "silu",
                    .sharedLimitsKey = "share_expert_swiglu_limit_list",
                    .sharedLimited = "swiglustep"},
     .shared = {.count = required("num_shared_experts"),
                .width = required("moe_shared_expert_intermediate_size"),
                .biasKey = "use_bias"},
     .sparse = {{"first_k_dense_replace", {}, true}},
     .irrelevant = "router_dtype gated_attention_proj_granularity_type"},
    // Layers share banks of experts (meta_mlp), which the weight loader
    // resolves. The caller multiplies the layer's output by layer_scale.
    {.architectures = "InternS2MobiusForConditionalGeneration",
     .modelTypes = "interns2_mobius interns2_mobius_text",
     .source = "none: required",
     .part = "text_config",
     .routing = {.renormalize = required("norm_topk_prob")},
     .activation = kSilu,
     .shared = {.count = always<int64_t>(1),
                .width = required("shared_expert_intermediate_size"),
                .gate = true},
     .irrelevant = "layer_scale"},
    // The attention also has experts, which are not part of the layer.
    {.architectures = "K2HorizonForCausalLM",
     .modelTypes = "k2_horizon",
     .source = "none: required",
     .routing = {.scoring = required("router_score_func"),
                 .renormalize = required("norm_topk_prob"),
                 .bias = required("moe_gate_bias"),
                 .scale = required("router_scaling_factor")},
     .activation = kSilu,
     .shared = {.count = required("num_shared_experts")},
     .sparse = {{"decoder_sparse_step", {}, true}, {"mlp_only_layers"}},
     .irrelevant = "mova_num_experts mova_num_experts_per_tok "
                   "attention_gate_func"},
    {.architectures = "PanguUltraMoEForCausalLM PanguProMoEV2ForCausalLM",
     .modelTypes = "pangu_ultra_moe",
     .source = "none: required",
     .experts = required("n_routed_experts"),
     .routing = {.scoring = only("scoring_func", "sigmoid"),
                 .renormalize = required("norm_topk_prob"),
                 .groups = only("n_group", 1),
                 .topGroups = only("topk_group", 1),
                 .bias = required("router_enable_expert_bias"),
                 .scale = required("routed_scaling_factor"),
                 .scaleOnOutput = true},
     .activation = kSilu,
     .shared = {.count = countOrNull("n_shared_experts")},
     .sparse = {{"first_k_dense_replace", {}, true}}},
    {.architectures = "Param2MoEForCausalLM",
     .modelTypes = "param2moe",
     .source = "none: required",
     .routing = {.scoring = required("score_function"),
                 .renormalize = required("norm_topk_prob"),
                 .groups = countOrNull("n_group"),
                 .topGroups = countOrNull("topk_group"),
                 .bias = required("moe_router_enable_expert_bias"),
                 .scale = required("routed_scaling_factor")},
     .activation = kSilu,
     .shared = {.count = required("num_shared_experts"),
                .width = required("moe_shared_expert_intermediate_size"),
                .widthOfAll = true},
     .sparse = {{"first_k_dense_replace", {}, true}}},
};

} // namespace

std::span<const ModelFamily> moec::compiler::engineFamilies() {
  return kEngineFamilies;
}
