//===- LayerFields.cpp - fields of a layer by name ------------------------===//
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

/// Returns the member at the end of a path of members.
template <auto... Path> static auto &at(L &layer) { return (layer.*....*Path); }

static constexpr LayerField integer(std::string_view name,
                                    LayerField::Slot<int64_t> slot, int64_t max,
                                    bool isRequired = false) {
  return {.name = name,
          .slot = slot,
          .min = isRequired ? 1 : 0,
          .max = max,
          .isRequired = isRequired};
}

static constexpr LayerField flag(std::string_view name,
                                 LayerField::Slot<bool> slot) {
  return {.name = name, .slot = slot};
}

static constexpr LayerField number(std::string_view name,
                                   LayerField::Slot<std::optional<double>> s) {
  return {.name = name, .slot = s};
}

/// Returns a string field. `names` returns its allowed values. If `names` is
/// null, the value is a floating-point element type.
static constexpr LayerField text(std::string_view name,
                                 LayerField::Slot<std::string> slot,
                                 std::vector<std::string_view> (*names)(),
                                 bool isRequired = false) {
  return {.name = name, .slot = slot, .names = names, .isRequired = isRequired};
}

/// Marks a field as a member of an attribute of moe.layer.
static constexpr LayerField as(std::string_view member, LayerField field) {
  field.member = member;
  return field;
}

/// Adds a former name of the field that a layer JSON may use.
static constexpr LayerField alias(std::string_view alias, LayerField field) {
  field.alias = alias;
  return field;
}

/// Marks a field as part of an inner object of the layer JSON.
static constexpr LayerField inner(LayerField field) {
  field.isInner = true;
  return field;
}

// The fields, in the order in which their errors are reported.
static constexpr LayerField kFields[] = {
    integer("num_experts", at<&L::experts>, kMaxDescribedExperts, true),
    alias("experts_per_token",
          integer("top_k", at<&L::topK>, kOfExperts, true)),
    alias("hidden_dim",
          integer("hidden_size", at<&L::hidden>, kMaxDescribedHidden, true)),
    integer("intermediate_size", at<&L::intermediate>,
            kMaxDescribedIntermediate, true),
    text("in_dtype", at<&L::inputType>, nullptr, true),
    text("out_dtype", at<&L::outputType>, nullptr),
    text("router_logits_dtype", at<&L::logitsType>, nullptr),
    as("function",
       text("activation", at<&L::activation, &A::function>, activationNames)),
    as("alpha", number("swiglu_alpha", at<&L::activation, &A::alpha>)),
    as("beta", number("swiglu_beta", at<&L::activation, &A::beta>)),
    as("limit", number("swiglu_limit", at<&L::activation, &A::limit>)),
    as("linear_beta", number("activation_situ_linear_beta",
                             at<&L::activation, &A::linearBeta>)),
    as("per_expert",
       flag("activation_per_expert", at<&L::activation, &A::perExpert>)),
    as("routed_scaling_factor",
       number("routed_scaling_factor", at<&L::routing, &R::scale>)),
    as("bias", flag("e_score_correction_bias", at<&L::routing, &R::bias>)),
    as("softcap",
       number("router_logit_softcapping", at<&L::routing, &R::softcap>)),
    as("logit_scale",
       number("router_output_multiplier", at<&L::routing, &R::logitScale>)),
    as("epsilon", number("norm_topk_prob_eps", at<&L::routing, &R::epsilon>)),
    as("sinks",
       integer("num_sink_experts", at<&L::routing, &R::sinks>, kOfExperts)),
    flag("per_expert_scale", at<&L::perExpertScale>),
    integer("hash_vocabulary", at<&L::hashVocabulary>, kMaxDescribedHidden),
    integer("num_zero_experts", at<&L::zeroExperts>, kOfExperts),
    integer("num_constant_experts", at<&L::constantExperts>,
            kMaxDescribedExperts),
    flag("has_bias", at<&L::hasBias>),
    text("gate_up_order", at<&L::gateUpOrder>, gateUpOrderNames),
    text("stored_layout", at<&L::storedLayout>, storedLayoutNames),
    alias("stored_hidden_dim",
          integer("stored_hidden_size", at<&L::storedHidden>,
                  kMaxDescribedHidden)),
    integer("stored_intermediate_size_per_partition",
            at<&L::storedIntermediate>, kMaxDescribedIntermediate),
    flag("group_index", at<&L::groupIndex>),
    text("weights_dtype", at<&L::weightsType>, nullptr),
    text("accumulate", at<&L::accumulate>, [] { return vectorOf("f32 fast"); }),
    text("activation_format", at<&L::activationFormat>,
         [] { return vectorOf("standard batched"); }),
    flag("apply_router_weight_on_input", at<&L::applyRouterWeightOnInput>),
    flag("apply_routed_scale_to_output", at<&L::routedScaleOnOutput>),
    integer("n_shared_experts", at<&L::numSharedExperts>, kMaxDescribedExperts),
    integer("shared_intermediate_size", at<&L::sharedIntermediate>,
            kMaxDescribedIntermediate),
    integer("num_redundant_experts", at<&L::redundantExperts>,
            kMaxDescribedExperts),
    flag("defer_moe_finalize", at<&L::deferFinalize>),
    flag("skip_final_all_reduce", at<&L::skipFinalAllReduce>),
    flag("is_lora_enabled", at<&L::lora>),
    flag("shared_expert_gate", at<&L::sharedExpertGate>),
    flag("expert_map", at<&L::expertMap>),
    flag("input_quantized", at<&L::inputQuantized>),
    flag("residual", at<&L::residual>),
    flag("batch_invariant", at<&L::batchInvariant>),
    number("post_expert_norm_eps", at<&L::postExpertNorm>),
    alias("latent_hidden_dim",
          integer("latent_hidden_size", at<&L::latentHidden>,
                  kMaxDescribedHidden)),
    inner(flag("is_scale_swizzled",
               at<&L::quant, &QuantDescription::scalesSwizzled>)),
    inner(flag("enable_eplb", at<&L::parallel, &ParallelDescription::eplb>)),
};

std::span<const LayerField> compiler::layerFields() { return kFields; }

Words compiler::wordsOfLayerJson() {
  Words words = {{"groups", "num_expert_group"},
                 {"top_groups", "topk_group"},
                 {"scoring", "scoring_func"},
                 {"group", "shape"},
                 {"second_scale", "alpha_or_gscale"},
                 {"zero_point", "zp"},
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
    if (!row.member.empty())
      words.emplace(row.member, row.name);
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
    // A word without '_' may be an English word, so it is replaced only if
    // quoted.
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
