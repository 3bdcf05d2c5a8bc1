//===- EngineFamiliesTest.cpp - families that only inference engines have -===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Configs by the keys that vLLM reads, and the layers that its code makes of
// them. Each key is deleted alone: no default is assumed.
//
//===----------------------------------------------------------------------===//

#include "runtime/support/WordList.h"
#include "test/import/ImportTesting.h"

#include <gtest/gtest.h>

using namespace moec;
using namespace moec::compiler;
using namespace moec::compiler::testing;
using nlohmann::json;

namespace {

json base(const char *architecture, const char *type) {
  return {{"architectures", {architecture}},
          {"model_type", type},
          {"dtype", "bfloat16"},
          {"num_hidden_layers", 12},
          {"hidden_size", 256},
          {"num_experts_per_tok", 4},
          {"moe_intermediate_size", 128}};
}

json with(json object, const json &more) {
  object.update(more);
  return object;
}

LayerDescription accepted(const json &config,
                          const ImportOptions &options = {}) {
  Result<LayerDescription> layer =
      readDescription(config.dump(), "in.json", options);
  if (!layer) {
    ADD_FAILURE() << layer.error().message;
    return {};
  }
  return *layer;
}

std::string refused(const json &config, const json &more = json::object()) {
  return refusalOf(with(config, more).dump());
}

/// Deletes each key that the layer is read from, except those that the models
/// ignore.
void expectRequired(const json &config, const char *part = nullptr,
                    WordList ignored = "hidden_act mlp_only_layers") {
  const LayerDescription layer = accepted(config);
  EXPECT_GE(layer.origin.read.size(), 8u);
  for (const auto &[key, value] : layer.origin.read) {
    json less = config;
    json &object = part ? less[part] : less;
    if (key == "dtype" || ignored.contains(key) || !object.erase(key))
      continue;
    EXPECT_NE(refusalOf(less.dump()).find(key), std::string::npos)
        << key << ": " << refusalOf(less.dump());
  }
}

const json kAliceAI = with(base("AliceAIForCausalLM", "alice_ai"),
                           {{"num_experts", 32},
                            {"norm_topk_prob", true},
                            {"hidden_act", "silu"},
                            {"shared_expert_intermediate_size", 192}});

const json kLing3 = with(base("BailingMoeV3ForCausalLM", "bailing_hybrid"),
                         {{"num_experts", 32},
                          {"num_shared_experts", 1},
                          {"moe_shared_expert_intermediate_size", 128},
                          {"n_group", 8},
                          {"topk_group", 4},
                          {"score_function", "sigmoid"},
                          {"topk_method", "noaux_tc"},
                          {"moe_router_enable_expert_bias", true},
                          {"norm_topk_prob", true},
                          {"routed_scaling_factor", 2.5},
                          {"router_dtype", "fp32"},
                          {"first_k_dense_replace", 1}});

const json kK2Horizon = with(base("K2HorizonForCausalLM", "k2_horizon"),
                             {{"num_experts", 32},
                              {"num_shared_experts", 2},
                              {"router_score_func", "sigmoid"},
                              {"norm_topk_prob", true},
                              {"moe_gate_bias", true},
                              {"router_scaling_factor", 1.5},
                              {"decoder_sparse_step", 1},
                              {"mlp_only_layers", {0, 1}},
                              {"mova_num_experts", 8},
                              {"mova_num_experts_per_tok", 2}});

const json kPangu = with(base("PanguUltraMoEForCausalLM", "pangu_ultra_moe"),
                         {{"n_routed_experts", 32},
                          {"n_shared_experts", 1},
                          {"norm_topk_prob", true},
                          {"router_enable_expert_bias", true},
                          {"routed_scaling_factor", 2.5},
                          {"first_k_dense_replace", 3}});

const json kParam2 = with(base("Param2MoEForCausalLM", "param2moe"),
                          {{"num_experts", 32},
                           {"num_shared_experts", 2},
                           {"moe_shared_expert_intermediate_size", 256},
                           {"score_function", "sigmoid"},
                           {"norm_topk_prob", true},
                           {"n_group", 4},
                           {"topk_group", 2},
                           {"moe_router_enable_expert_bias", true},
                           {"routed_scaling_factor", 2.5},
                           {"first_k_dense_replace", 1}});

constexpr WordList kIgnoredOfLing3 =
    "hidden_act score_function topk_method norm_topk_prob "
    "moe_router_enable_expert_bias";

} // namespace

TEST(EngineFamilies, AliceAI) {
  expectRequired(kAliceAI);
  const LayerDescription layer = accepted(kAliceAI);
  EXPECT_EQ(layer.routing.scoring, "sigmoid");
  EXPECT_TRUE(layer.routing.bias);
  EXPECT_TRUE(*layer.routing.renormalize);
  EXPECT_FALSE(layer.routing.scale);
  EXPECT_EQ(layer.logitsType, "bf16");
  EXPECT_EQ(layer.numSharedExperts, 1);
  EXPECT_EQ(layer.sharedIntermediate, 192);
  EXPECT_TRUE(layer.sharedExpertGate);
  EXPECT_EQ(layer.origin.layer, 0);
  json none = kAliceAI;
  none["shared_expert_intermediate_size"] = 0;
  EXPECT_EQ(accepted(none).numSharedExperts, 0);
  EXPECT_NE(refused(kAliceAI, {{"hidden_act", "gelu"}})
                .find("$.hidden_act: expected \"silu\""),
            std::string::npos);
}

TEST(EngineFamilies, Ling3) {
  expectRequired(kLing3, nullptr, kIgnoredOfLing3);
  const LayerDescription layer = accepted(kLing3);
  EXPECT_EQ(layer.routing.scoring, "sigmoid");
  EXPECT_EQ(layer.routing.groups, 8);
  EXPECT_EQ(layer.routing.topGroups, 4);
  EXPECT_EQ(layer.routing.scale, 2.5);
  EXPECT_FALSE(layer.routedScaleOnOutput);
  EXPECT_EQ(layer.logitsType, "f32");
  EXPECT_EQ(layer.origin.layer, 1);
  EXPECT_EQ(layer.numSharedExperts, 1);
  EXPECT_EQ(layer.sharedIntermediate, 0) << "as wide as the routed ones";
  EXPECT_EQ(layer.activation.function, "silu");
  EXPECT_FALSE(layer.activation.limit);
  // Another model's class has this model type, so none of its sizes is assumed.
  json less = kLing3;
  less.erase("hidden_size");
  EXPECT_NE(refusalOf(less.dump()).find("$.hidden_size: expected"),
            std::string::npos);
  // The text model of a multimodal config.
  json text = kLing3;
  text.erase("architectures");
  const json outer = {
      {"architectures", {"BailingMoeV3VLForConditionalGeneration"}},
      {"model_type", "bailing_moe_v3_vl"},
      {"text_config", text}};
  EXPECT_EQ(accepted(outer).experts, 32);
  expectRequired(outer, "text_config", kIgnoredOfLing3);
}

TEST(EngineFamilies, LimitsOfLing3) {
  json routed = json::array(), shared = json::array();
  for (int i = 0; i < 12; ++i) {
    routed.push_back(i == 1 ? json(7.0) : json(0));
    shared.push_back(i == 2 ? json(7.0) : json(nullptr));
  }
  const json limited =
      with(kLing3, {{"expert_swiglu_limit_list", routed},
                    {"share_expert_swiglu_limit_list", shared}});
  EXPECT_EQ(refused(limited),
            "in.json: $.share_expert_swiglu_limit_list[1]: expected the limit "
            "of the routed experts, 7.0, or --no-shared-experts, got null");
  ImportOptions alone;
  alone.noSharedExperts = true;
  EXPECT_EQ(accepted(limited, alone).activation.limit, 7.0);
  EXPECT_EQ(accepted(limited, alone).activation.function, "silu");
  alone.layer = 3;
  EXPECT_FALSE(accepted(limited, alone).activation.limit);
  ImportOptions third;
  third.layer = 3;
  EXPECT_EQ(accepted(limited, third).numSharedExperts, 1);
  // Equal limits do not make the two functions equal.
  EXPECT_EQ(
      refused(with(limited, {{"share_expert_swiglu_limit_list", routed}})),
      "in.json: $.share_expert_swiglu_limit_list[1]: expected none, or "
      "--no-shared-experts (the limit of shared experts is that of "
      "swiglustep), got the number 7.0");
}

TEST(EngineFamilies, RoutedExpertsOfLing3) {
  const json mixed =
      with(kLing3, {{"quantization_config",
                     {{"quant_method", "fp8"},
                      {"scale_fmt", "ue8m0"},
                      {"weight_block_size", {128, 128}},
                      {"routed_experts_quant_method", "mxfp4"}}}});
  EXPECT_EQ(refused(mixed),
            "in.json: $.quantization_config: leaves shared experts as they "
            "are, so that they cannot be rows of the routed ones; accepted: "
            "--no-shared-experts");
  ImportOptions alone;
  alone.noSharedExperts = true;
  EXPECT_EQ(accepted(mixed, alone).quant.scheme, "mxfp4_w4a16");
}

TEST(EngineFamilies, InternS2Mobius) {
  json text = base("", "interns2_mobius_text");
  text.erase("architectures");
  text.update({{"num_experts", 32},
               {"norm_topk_prob", true},
               {"num_blocks", 4},
               {"layer_scale", true},
               {"shared_expert_intermediate_size", 128}});
  const json config = {
      {"architectures", {"InternS2MobiusForConditionalGeneration"}},
      {"model_type", "interns2_mobius"},
      {"text_config", text}};
  expectRequired(config, "text_config");
  const LayerDescription layer = accepted(config);
  EXPECT_EQ(layer.routing.scoring, "softmax");
  EXPECT_FALSE(layer.routing.bias);
  EXPECT_TRUE(layer.sharedExpertGate);
}

TEST(EngineFamilies, K2Horizon) {
  expectRequired(kK2Horizon);
  const LayerDescription layer = accepted(kK2Horizon);
  EXPECT_EQ(layer.routing.scoring, "sigmoid");
  EXPECT_TRUE(layer.routing.bias);
  EXPECT_EQ(layer.routing.scale, 1.5);
  EXPECT_EQ(layer.numSharedExperts, 2);
  EXPECT_EQ(layer.origin.layer, 2);
  EXPECT_FALSE(
      accepted(with(kK2Horizon, {{"moe_gate_bias", false}})).routing.bias);
  EXPECT_EQ(accepted(with(kK2Horizon, {{"router_score_func", "softmax"}}))
                .routing.scoring,
            "softmax");
}

TEST(EngineFamilies, OpenPangu) {
  expectRequired(kPangu);
  const LayerDescription layer = accepted(kPangu);
  EXPECT_TRUE(layer.routedScaleOnOutput);
  EXPECT_EQ(layer.routing.scale, 2.5);
  EXPECT_TRUE(layer.routing.bias);
  EXPECT_EQ(layer.numSharedExperts, 1);
  EXPECT_EQ(layer.origin.layer, 3);
  EXPECT_EQ(
      accepted(with(kPangu, {{"n_shared_experts", nullptr}})).numSharedExperts,
      0);
  json pro = kPangu;
  pro["architectures"] = {"PanguProMoEV2ForCausalLM"};
  pro["model_type"] = "PanguProMoE";
  EXPECT_EQ(accepted(pro).experts, 32);
}

TEST(EngineFamilies, Param2MoE) {
  expectRequired(kParam2);
  const LayerDescription layer = accepted(kParam2);
  EXPECT_EQ(layer.routing.groups, 4);
  EXPECT_EQ(layer.routing.topGroups, 2);
  // The width is that of both shared experts.
  EXPECT_EQ(layer.numSharedExperts, 2);
  EXPECT_EQ(layer.sharedIntermediate, 0);
  EXPECT_EQ(
      accepted(with(kParam2, {{"moe_shared_expert_intermediate_size", 128}}))
          .sharedIntermediate,
      64);
  EXPECT_EQ(refused(kParam2, {{"moe_shared_expert_intermediate_size", 129}}),
            "in.json: $.moe_shared_expert_intermediate_size: expected a "
            "multiple of 2 shared experts, whose width it is together, got the "
            "number 129");
  EXPECT_EQ(
      accepted(with(kParam2, {{"n_group", nullptr}, {"topk_group", nullptr}}))
          .routing.groups,
      0);
}
