//===- LayerFields.cpp - the fields of a layer by their names -------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/import/LayerFields.h"

#include "compiler/import/Vocabulary.h"

#include <cctype>

using namespace moec;
using namespace moec::compiler;

using L = LayerDescription;
using R = RoutingDescription;
using A = ActivationDescription;

/// The member at the end of a path of members.
template <auto... Path> static auto &at(L &layer) { return (layer.*....*Path); }

static constexpr LayerField integer(std::string_view word, std::string_view key,
                                    LayerField::Slot<int64_t> slot, int64_t max,
                                    bool isRequired = false) {
  return {word, key, slot, isRequired ? 1 : 0, max, nullptr, true, isRequired};
}

static constexpr LayerField flag(std::string_view word, std::string_view key,
                                 LayerField::Slot<bool> slot,
                                 bool isAttribute = true) {
  return {word, key, slot, 0, 0, nullptr, isAttribute};
}

static constexpr LayerField number(std::string_view word, std::string_view key,
                                   LayerField::Slot<std::optional<double>> s,
                                   bool isAttribute = false) {
  return {word, key, s, 0, 0, nullptr, isAttribute};
}

/// Without `names` a float type.
static constexpr LayerField text(std::string_view word, std::string_view key,
                                 LayerField::Slot<std::string> slot,
                                 std::vector<std::string_view> (*names)(),
                                 bool isAttribute = true,
                                 bool isRequired = false) {
  return {word, key, slot, 0, 0, names, isAttribute, isRequired};
}

// In the order in which mistakes are looked for.
static constexpr LayerField kFields[] = {
    integer("experts", "num_experts", at<&L::experts>, kMaxDescribedExperts,
            true),
    integer("top_k", "experts_per_token", at<&L::topK>, kOfExperts, true),
    integer("hidden", "hidden_dim", at<&L::hidden>, kMaxDescribedHidden, true),
    integer("intermediate", "intermediate_size", at<&L::intermediate>,
            kMaxDescribedIntermediate, true),
    text("input_type", "in_dtype", at<&L::inputType>, nullptr, true, true),
    text("output_type", "out_dtype", at<&L::outputType>, nullptr),
    text("logits_type", "router_logits_dtype", at<&L::logitsType>, nullptr),
    text("function", "activation", at<&L::activation, &A::function>,
         activationNames, false),
    number("alpha", "swiglu_alpha", at<&L::activation, &A::alpha>),
    number("beta", "swiglu_beta", at<&L::activation, &A::beta>),
    number("limit", "swiglu_limit", at<&L::activation, &A::limit>),
    number("linear_beta", "activation_situ_linear_beta",
           at<&L::activation, &A::linearBeta>),
    flag("per_expert", "activation_per_expert",
         at<&L::activation, &A::perExpert>, false),
    number("routed_scale", "routed_scaling_factor", at<&L::routing, &R::scale>),
    flag("bias", "e_score_correction_bias", at<&L::routing, &R::bias>, false),
    number("softcap", "router_logit_softcapping", at<&L::routing, &R::softcap>),
    number("logit_scale", "router_output_multiplier",
           at<&L::routing, &R::logitScale>),
    number("epsilon", "norm_topk_prob_eps", at<&L::routing, &R::epsilon>),
    {"sinks", "num_sink_experts", at<&L::routing, &R::sinks>, 0, kOfExperts},
    flag("per_expert_scale", "per_expert_scale", at<&L::perExpertScale>),
    integer("hash_vocabulary", "hash_vocabulary", at<&L::hashVocabulary>,
            kMaxDescribedHidden),
    integer("zero_experts", "num_zero_experts", at<&L::zeroExperts>,
            kOfExperts),
    integer("constant_experts", "num_constant_experts", at<&L::constantExperts>,
            kMaxDescribedExperts),
    flag("has_bias", "has_bias", at<&L::hasBias>),
    text("gate_up_order", "gate_up_order", at<&L::gateUpOrder>,
         gateUpOrderNames),
    text("stored_layout", "stored_layout", at<&L::storedLayout>,
         storedLayoutNames),
    integer("stored_hidden", "stored_hidden_dim", at<&L::storedHidden>,
            kMaxDescribedHidden),
    integer("stored_intermediate", "stored_intermediate_size_per_partition",
            at<&L::storedIntermediate>, kMaxDescribedIntermediate),
    flag("group_index", "group_index", at<&L::groupIndex>),
    text("weights_type", "weights_dtype", at<&L::weightsType>, nullptr),
    text("accumulate", "accumulate", at<&L::accumulate>,
         [] { return vectorOf("f32 fast"); }),
    text("activation_format", "activation_format", at<&L::activationFormat>,
         [] { return vectorOf("standard batched"); }),
    flag("apply_router_weight_on_input", "apply_router_weight_on_input",
         at<&L::applyRouterWeightOnInput>),
    flag("routed_scale_on_output", "apply_routed_scale_to_output",
         at<&L::routedScaleOnOutput>),
    integer("num_shared_experts", "n_shared_experts", at<&L::numSharedExperts>,
            kMaxDescribedExperts),
    integer("shared_intermediate", "shared_intermediate_size",
            at<&L::sharedIntermediate>, kMaxDescribedIntermediate),
    integer("redundant_experts", "num_redundant_experts",
            at<&L::redundantExperts>, kMaxDescribedExperts),
    flag("defer_finalize", "defer_moe_finalize", at<&L::deferFinalize>),
    flag("skip_final_all_reduce", "skip_final_all_reduce",
         at<&L::skipFinalAllReduce>),
    flag("lora", "is_lora_enabled", at<&L::lora>),
    flag("shared_expert_gate", "shared_expert_gate", at<&L::sharedExpertGate>),
    flag("expert_map", "expert_map", at<&L::expertMap>),
    flag("input_quantized", "input_quantized", at<&L::inputQuantized>),
    flag("residual", "residual", at<&L::residual>),
    flag("batch_invariant", "batch_invariant", at<&L::batchInvariant>),
    number("post_expert_norm", "post_expert_norm_eps", at<&L::postExpertNorm>,
           true),
    integer("latent_hidden", "latent_hidden_dim", at<&L::latentHidden>,
            kMaxDescribedHidden),
    // These stand in other objects of the layer JSON, or in none.
    flag("scales_swizzled", "",
         at<&L::quant, &QuantDescription::scalesSwizzled>),
    flag("eplb", "", at<&L::parallel, &ParallelDescription::eplb>),
};

std::span<const LayerField> compiler::layerFields() { return kFields; }

Words compiler::wordsOfLayerJson() {
  Words words = {{"groups", "num_expert_group"},
                 {"top_groups", "topk_group"},
                 {"scoring", "scoring_func"},
                 {"group", "shape"},
                 {"second_scale", "alpha_or_gscale"},
                 {"zero_point", "zp"},
                 {"scales_swizzled", "is_scale_swizzled"},
                 {"eplb", "enable_eplb"},
                 {"all_to_all", "all2all_backend"},
                 {"placement", "expert_placement_strategy"},
                 {"tp", "tp_size"},
                 {"pcp", "pcp_size"},
                 {"dp", "dp_size"},
                 {"sp", "sp_size"},
                 {"routing", "routing_method"},
                 {"quant", "quant_config"},
                 {"parallel", "moe_parallel_config"}};
  for (const LayerField &row : kFields)
    if (!row.key.empty())
      words.emplace(row.word, row.key);
  return words;
}

std::string compiler::inWords(std::string_view message, const Words &words) {
  const auto isOfWord = [&](size_t i) {
    return i < message.size() &&
           (message[i] == '_' ||
            std::isalnum(static_cast<unsigned char>(message[i])) != 0);
  };
  std::string text;
  for (size_t begin = 0, end = 0; begin < message.size(); begin = end) {
    for (end = begin; isOfWord(end);)
      ++end;
    const std::string_view word = message.substr(begin, end - begin);
    // A word without '_' may be an English one, unless it is quoted.
    const bool isName = word.find('_') != std::string_view::npos ||
                        (begin > 0 && message[begin - 1] == '\'' &&
                         message.substr(end).starts_with('\''));
    const auto found = isName ? words.find(word) : words.end();
    if (end == begin)
      text += message[end++];
    else
      text += found == words.end() ? word : std::string_view(found->second);
  }
  return text;
}
