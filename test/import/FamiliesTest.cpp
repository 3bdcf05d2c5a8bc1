//===- FamiliesTest.cpp - what families of models say in their own way ----===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Keys that Transformers 5 writes, values that would make another layer, null
// beside absent, and what a description says of where it comes from.
//
//===----------------------------------------------------------------------===//

#include "test/import/ImportTesting.h"

#include <gtest/gtest.h>

using namespace moec;
using namespace moec::compiler;
using namespace moec::compiler::testing;
using nlohmann::json;

namespace {

/// A model's config without some keys and with others, which may be null.
std::string edited(const std::string &model,
                   const std::vector<std::string> &without,
                   const json &with = json::object(),
                   const std::string &part = "") {
  json config = json::parse(modelText(model));
  json &object = part.empty() ? config : config[part];
  for (const std::string &key : without)
    object.erase(key);
  for (auto it = with.begin(); it != with.end(); ++it)
    object[it.key()] = it.value();
  return config.dump();
}

LayerDescription accepted(const std::string &text,
                          std::optional<int64_t> number = {}) {
  ImportOptions options;
  options.scheme = "bf16";
  options.layer = number;
  Result<LayerDescription> layer = readDescription(text, "in.json", options);
  if (!layer) {
    ADD_FAILURE() << layer.error().message;
    return {};
  }
  return *layer;
}

std::string refused(const std::string &text,
                    std::optional<int64_t> number = {}) {
  ImportOptions options;
  options.scheme = "bf16";
  options.layer = number;
  return refusalOf(text, options);
}

std::string refusedBeside(const std::string &model, const json &with) {
  return refused(edited(model, {}, with));
}

/// A word for each of `count` layers.
json types(int count, const std::string &first, const std::string &rest,
           int numFirst) {
  json list = json::array();
  for (int i = 0; i < count; ++i)
    list.push_back(i < numFirst ? first : rest);
  return list;
}

//===----------------------------------------------------------------------===//
// Keys of Transformers 5
//===----------------------------------------------------------------------===//

TEST(Families, TypesOfLayersStandForOtherKeys) {
  const std::string v4 =
      edited("deepseek-v4-flash", {"num_hash_layers"},
             {{"mlp_layer_types", types(43, "hash_moe", "moe", 5)}});
  EXPECT_EQ(accepted(v4).hashVocabulary, 129280);
  EXPECT_EQ(accepted(v4, 4).hashVocabulary, 129280);
  EXPECT_EQ(accepted(v4, 5).hashVocabulary, 0);
  EXPECT_TRUE(accepted(v4, 5).routing.bias);
  // Without a word of it the first three, as the class has it.
  const std::string bare = edited("deepseek-v4-flash", {"num_hash_layers"});
  EXPECT_EQ(accepted(bare, 2).hashVocabulary, 129280);
  EXPECT_EQ(accepted(bare, 3).hashVocabulary, 0);
  EXPECT_EQ(
      refusedBeside("deepseek-v4-flash",
                    {{"mlp_layer_types", types(43, "hash_moe", "moe", 0)}}),
      "in.json: $.num_hash_layers: expected what mlp_layer_types says, which "
      "calls layer 0 \"moe\", got the number 3");
  EXPECT_EQ(
      refused(edited("deepseek-v3", {},
                     {{"mlp_layer_types", types(61, "dense", "hash_moe", 3)}})),
      "in.json: $.mlp_layer_types: calls layer 3 \"hash_moe\", which "
      "moec knows of DeepSeek-V4 alone");
}

TEST(Families, ADenseLayerIsRefusedInEveryFamily) {
  for (const auto &[model, layers] : {std::pair<const char *, int>("hy3", 80),
                                      {"a.x-k1", 61},
                                      {"mixtral-8x7b", 32},
                                      {"deepseek-v3.2", 61},
                                      {"glm-4.7-flash", 47},
                                      {"granite-3.0-1b-a400m", 24}}) {
    const std::string text =
        edited(model, {"first_k_dense_replace"},
               {{"mlp_layer_types", types(layers, "dense", "sparse", 2)}});
    EXPECT_EQ(refused(text, 1),
              "in.json: $.mlp_layer_types: expected --layer to name a layer "
              "with experts, got --layer=1: mlp_layer_types calls layer 1 "
              "\"dense\"");
    EXPECT_EQ(accepted(text).origin.layer, 2) << model;
  }
  EXPECT_EQ(refused(edited("deepseek-v3", {"first_k_dense_replace"}), 2),
            "in.json: $.first_k_dense_replace: expected --layer to name a "
            "layer with experts, got --layer=2: with first_k_dense_replace 3 "
            "layer 2 is dense (by default)");
  EXPECT_EQ(refused(edited("jamba-v0.1", {}, {{"expert_layer_offset", 2}})),
            "in.json: $.expert_layer_period: expected more than "
            "expert_layer_offset 2, got 2");
  EXPECT_EQ(refused(edited("arctic", {"moe_layer_frequency"})),
            "in.json: $.moe_layer_frequency: expected what says which layers "
            "have experts, got nothing");
}

TEST(Families, NamesOfOneThing) {
  EXPECT_EQ(accepted(edited("qwen3-30b-a3b", {"num_experts"},
                            {{"num_local_experts", 64}}))
                .experts,
            64);
  EXPECT_EQ(refused(edited("qwen3-30b-a3b", {}, {{"num_local_experts", 64}})),
            "in.json: $.num_local_experts: expected what num_experts says, "
            "the number 128, got the number 64");
  json kimi = {{"architectures", {"Kimi_K25ForConditionalGeneration"}},
               {"model_type", "kimi_k25"},
               {"text_config", json::parse(modelText("kimi-k2"))}};
  EXPECT_EQ(accepted(kimi.dump()).experts, 384);
}

TEST(Families, LayersAreCountedByTheirTypes) {
  const std::string text =
      edited("nemotron-3-nano-30b-a3b",
             {"hybrid_override_pattern", "num_hidden_layers"},
             {{"layers_block_type", {"linear_attention", "mlp", "moe"}}});
  const LayerDescription layer = accepted(text);
  EXPECT_EQ(layer.origin.layer, 2);
  EXPECT_EQ(layer.origin.layers, 3);
}

TEST(Families, SharedExpertsThatNoKeyCounts) {
  EXPECT_EQ(
      accepted(edited("minimax-m3", {"n_shared_experts"}, {}, "text_config"))
          .numSharedExperts,
      1);
  const LayerDescription hunyuan = accepted(
      edited("hunyuan-a13b", {"num_shared_expert", "moe_intermediate_size"}));
  EXPECT_EQ(hunyuan.numSharedExperts, 1);
  EXPECT_EQ(hunyuan.intermediate, 3072);
}

TEST(Families, AlphaOfGptOss) {
  EXPECT_EQ(*accepted(edited("gpt-oss-20b", {}, {{"swiglu_alpha", 1.5}}))
                 .activation.alpha,
            1.5);
}

//===----------------------------------------------------------------------===//
// Absent is not null
//===----------------------------------------------------------------------===//

TEST(Families, AbsentIsNotNull) {
  const std::string part = "ffn_config", norm = "moe_normalize_expert_weights";
  EXPECT_TRUE(*accepted(edited("dbrx", {norm}, json::object(), part))
                   .routing.renormalize);
  EXPECT_FALSE(*accepted(edited("dbrx", {}, {{norm, nullptr}}, part))
                    .routing.renormalize);
  EXPECT_EQ(
      *accepted(edited("deepseek-v4-flash", {"swiglu_limit"})).activation.limit,
      10);
  EXPECT_FALSE(
      accepted(edited("deepseek-v4-flash", {}, {{"swiglu_limit", nullptr}}))
          .activation.limit);
  EXPECT_EQ(refusedBeside("deepseek-v3", {{"routed_scaling_factor", nullptr}}),
            "in.json: $.routed_scaling_factor: expected a number, got null");
  EXPECT_EQ(refusedBeside("deepseek-v3", {{"norm_topk_prob", nullptr}}),
            "in.json: $.norm_topk_prob: expected true or false, got null");
  EXPECT_EQ(refusedBeside("deepseek-v3", {{"first_k_dense_replace", nullptr}}),
            "in.json: $.first_k_dense_replace: expected an integer from 0 to "
            "65536, got null");
}

TEST(Families, GroupsOfExperts) {
  // One group is none, whatever is said of the best groups.
  EXPECT_EQ(accepted(edited("glm-4.5", {"n_group"})).routing.groups, 0);
  EXPECT_EQ(refusedBeside("deepseek-v3", {{"topk_group", 9}}),
            "in.json: $.topk_group: expected an integer from 1 to 8, got the "
            "number 9");
  EXPECT_EQ(refused(edited("deepseek-v2", {"n_group"})),
            "in.json: $.n_group: expected groups, which group_limited_greedy "
            "takes experts from, got nothing");
}

//===----------------------------------------------------------------------===//
// Values that would make another layer
//===----------------------------------------------------------------------===//

TEST(Families, OtherValuesAreRefused) {
  struct Case {
    const char *model, *key;
    json value;
    const char *expected;
  };
  const Case cases[] = {
      {"ernie-4.5-21b-a3b", "moe_norm_min", 0.95,
       "a number from 0 to 1e-06 (weights are divided by their sum, whatever "
       "it is), got the number 0.95"},
      {"longcat-flash", "zero_expert_type", "drop",
       "\"identity\" (zero experts hand x on as it is), got the string "
       "\"drop\""},
      {"minimax-m2", "shared_intermediate_size", 512,
       "0 (the shared expert of these models has a weight of its own), got "
       "the number 512"},
      {"hunyuan-a13b", "use_mixed_mlp_moe", false,
       "true (every layer has a shared MLP), got false"},
      {"hunyuan-a13b", "group_limited_greedy", true,
       "false (no such routing of this family is known), got true"},
      {"hunyuan-a13b", "routed_scaling_factor", 2.5,
       "1 (the family has no factor), got the number 2.5"},
      {"afmoe", "num_expert_groups", 4,
       "1 (the groups of this family are n_group), got the number 4"},
      {"hy3", "mlp_bias", true,
       "false, or --no-shared-experts (true gives shared experts biases, "
       "which moec does not have), got true"},
      {"ernie-4.5-21b-a3b", "use_bias", true,
       "false, or --no-shared-experts (true gives shared experts biases, "
       "which moec does not have), got true"},
  };
  for (const Case &each : cases) {
    const std::string text = edited(each.model, {}, {{each.key, each.value}});
    EXPECT_EQ(refused(text), std::string("in.json: $.") + each.key +
                                 ": expected " + each.expected);
    ImportOptions options;
    options.scheme = "bf16";
    options.ignoreFields = {each.key};
    EXPECT_EQ(refusalOf(text, options), "") << each.key;
  }
  ImportOptions apart;
  apart.noSharedExperts = true;
  EXPECT_EQ(refusalOf(edited("hy3", {}, {{"mlp_bias", true}}), apart), "");
}

TEST(Families, MessagesNameTheConfigsOwnModel) {
  EXPECT_EQ(refusedBeside("moonlight-16b-a3b", {{"moe_extra", 1}}),
            "in.json: $.moe_extra: DeepseekV3ForCausalLM has no such key that "
            "moec knows, and its name says that it may change the layer; if it "
            "does not, pass --ignore-field=moe_extra");
  json text = json::parse(modelText("granite-3.0-1b-a400m"));
  text["architectures"] = {"GraniteMoeHybridForCausalLM"};
  text["model_type"] = "granitemoehybrid";
  text["moe_extra"] = 1;
  EXPECT_EQ(refused(text.dump()),
            "in.json: $.moe_extra: GraniteMoeHybridForCausalLM has no such key "
            "that moec knows, and its name says that it may change the layer; "
            "if it does not, pass --ignore-field=moe_extra");
  text.erase("moe_extra");
  text.erase("architectures");
  ImportOptions options;
  Result<LayerDescription> layer =
      readDescription(text.dump(), "a/config.json", options);
  ASSERT_TRUE(layer);
  EXPECT_EQ(layer->name, "granitemoehybrid");
}

//===----------------------------------------------------------------------===//
// What the run's logits are, and where the layer comes from
//===----------------------------------------------------------------------===//

TEST(Families, LogitsAsTheModelComputesThem) {
  for (const char *model :
       {"deepseek-v3", "kimi-k2", "glm-4.5", "ernie-4.5-21b-a3b", "hy3",
        "hunyuan-a13b", "nemotron-3-nano-30b-a3b", "longcat-flash",
        "minimax-m2", "step-3.5-flash"})
    EXPECT_EQ(accepted(modelText(model)).logitsType, "f32") << model;
  for (const char *model : {"mixtral-8x7b", "qwen3-30b-a3b", "gpt-oss-20b",
                            "olmoe-1b-7b", "llama-4-scout", "dbrx"})
    EXPECT_EQ(accepted(modelText(model)).logitsType, "bf16") << model;
}

TEST(Families, TheOriginSaysWhatWasReadAndAssumed) {
  const std::string text =
      edited("deepseek-v3", {"routed_scaling_factor", "scoring_func"});
  const LayerOrigin origin = accepted(text).origin;
  EXPECT_EQ(origin.model, "DeepseekV3ForCausalLM");
  EXPECT_EQ(origin.layer, 3);
  EXPECT_EQ(origin.layers, 61);
  EXPECT_FALSE(origin.isAsked);
  const auto find = [](const std::vector<LayerOrigin::Said> &said,
                       const std::string &key) {
    for (const auto &[name, value] : said)
      if (name == key)
        return value;
    return std::string("nowhere");
  };
  EXPECT_EQ(find(origin.read, "n_routed_experts"), "256");
  EXPECT_EQ(find(origin.read, "first_k_dense_replace"), "3");
  EXPECT_EQ(find(origin.read, "topk_method"), "\"noaux_tc\"");
  EXPECT_EQ(find(origin.assumed, "routed_scaling_factor"), "2.5");
  EXPECT_EQ(find(origin.assumed, "scoring_func"), "\"sigmoid\"");
  EXPECT_EQ(find(origin.read, "routed_scaling_factor"), "nowhere");
  EXPECT_TRUE(accepted(text, 7).origin.isAsked);
  EXPECT_EQ(accepted(text, 7).origin.layer, 7);
  // Long values are cut, and stay JSON.
  const std::string act =
      edited("dbrx", {},
             {{"ffn_act_fn", {{"a", std::string(500, 'x')}, {"name", "silu"}}}},
             "ffn_config");
  const std::string value = find(accepted(act).origin.read, "ffn_act_fn");
  EXPECT_LT(value.size(), 120u);
  EXPECT_TRUE(json::accept(value)) << value;
}

} // namespace
