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

#include <algorithm>

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
      "in.json: $.num_hash_layers: expected the value of mlp_layer_types, "
      "which calls layer 0 \"moe\", got the number 3");
  EXPECT_EQ(
      refused(edited("deepseek-v3", {},
                     {{"mlp_layer_types", types(61, "dense", "hash_moe", 3)}})),
      "in.json: $.mlp_layer_types: calls layer 3 \"hash_moe\", which moec "
      "supports for DeepSeek-V4 only");
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

/// A config that says no more than its type.
json bare(const std::string &type) {
  return {{"model_type", type}, {"dtype", "bfloat16"}};
}

bool assumes(const LayerDescription &layer, const std::string &key,
             const std::string &value) {
  return std::ranges::count(layer.origin.assumed,
                            LayerOrigin::Said(key, value)) == 1;
}

TEST(Families, SizesOfTheClassAreAssumedAndListed) {
  const LayerDescription layer = accepted(bare("exaone_moe").dump());
  EXPECT_EQ(layer.experts, 64);
  EXPECT_EQ(layer.topK, 8);
  EXPECT_EQ(layer.hidden, 4096);
  EXPECT_EQ(layer.intermediate, 1024);
  EXPECT_EQ(layer.origin.layers, 32);
  EXPECT_EQ(layer.origin.layer, 1);
  EXPECT_TRUE(assumes(layer, "num_experts", "64"));
  EXPECT_TRUE(assumes(layer, "num_experts_per_tok", "8"));
  EXPECT_TRUE(assumes(layer, "num_hidden_layers", "32"));
  EXPECT_TRUE(assumes(layer, "hidden_size", "4096"));
  // A default is bounded by what the config says.
  json few = bare("exaone_moe");
  few["num_experts"] = 4;
  EXPECT_EQ(refused(few.dump()),
            "in.json: $.num_experts_per_tok: expected an integer from 1 to 4, "
            "got nothing");
  // A misspelt key is not a default.
  json typo = bare("exaone_moe");
  typo["hiden_size"] = 512;
  EXPECT_EQ(refused(typo.dump()),
            "in.json: $.hidden_size: expected an integer from 1 to 1048576, "
            "got nothing; did you mean it by \"hiden_size\"?");
  // A class without a default, and a model type without a class.
  EXPECT_NE(refused(bare("dots1").dump()).find("$.n_routed_experts: expected"),
            std::string::npos);
  EXPECT_NE(refused(bare("kimi_k2").dump()).find("$.hidden_size: expected"),
            std::string::npos);
}

TEST(Families, AConfigWithoutATypeNamesDtype) {
  EXPECT_EQ(refused(json{{"model_type", "exaone_moe"}}.dump()),
            "in.json: $.dtype: expected bf16, f16 or f32 (or PyTorch's "
            "bfloat16, float16, float32), got nothing");
}

TEST(Families, AModelDoesAsItDoes) {
  json v4 = json::parse(modelText("deepseek-v4-flash"));
  v4["norm_topk_prob"] = false;
  EXPECT_EQ(refused(v4.dump()),
            "in.json: $.norm_topk_prob: expected true, which these models use "
            "regardless of the key, got false");
  EXPECT_EQ(refusedBeside("phi-3.5-moe", {{"num_experts_per_tok", 1}}),
            "in.json: $.num_experts_per_tok: expected 2, which these models "
            "use regardless of the key, got the number 1");
  EXPECT_EQ(refusedBeside("deepseek-v3", {{"scoring_func", "softmax"}}),
            "in.json: $.scoring_func: expected \"sigmoid\", which these models "
            "use regardless of the key, got the string \"softmax\"");
  EXPECT_EQ(refusedBeside("qwen3-30b-a3b",
                          {{"shared_expert_intermediate_size", 768}}),
            "in.json: $.shared_expert_intermediate_size: expected 0 "
            "(Transformers gives these models no shared expert, vLLM does), "
            "got the number 768");
}

TEST(Families, ValuesThatWouldMakeAnotherLayer) {
  const auto softcap = [](double value) {
    return accepted(edited("laguna-xs.2", {},
                           {{"moe_router_logit_softcapping", value}}))
        .routing.softcap;
  };
  EXPECT_EQ(softcap(2), 2.0);
  EXPECT_EQ(softcap(0), std::nullopt);
  // The class ignores caps that are not above 0.
  EXPECT_EQ(softcap(-1), std::nullopt);
  json kolibri = bare("kolibri1");
  EXPECT_EQ(accepted(kolibri.dump()).routing.method, "topk_sigmoid_bias");
  kolibri["norm_topk_prob"] = true;
  EXPECT_EQ(refused(kolibri.dump()),
            "in.json: $.norm_topk_prob: expected false (no routing method "
            "divides sigmoids of logits that a bias has chosen by their sum), "
            "got true");
  json spark = bare("muse_spark");
  spark["text_config"] = {{"model_type", "muse_spark_text"}};
  const LayerDescription layer = accepted(spark.dump());
  EXPECT_EQ(layer.latentHidden, 4096);
  EXPECT_EQ(layer.postExpertNorm, 1e-8);
  EXPECT_EQ(layer.routing.logitScale, 0.1767766952966369);
  EXPECT_EQ(layer.routing.epsilon, 1e-15);
  EXPECT_TRUE(layer.routing.bias);
  EXPECT_EQ(layer.logitsType, "f32");
  spark["text_config"]["post_norm_eps"] = 0;
  EXPECT_EQ(refused(spark.dump()),
            "in.json: $.text_config.post_norm_eps: expected a number of f32 "
            "above 0, got the number 0");
  json mistral = bare("mistral4");
  mistral["n_group"] = 4;
  EXPECT_EQ(refused(mistral.dump()),
            "in.json: $.n_group: expected 1 (groups would be chosen by the sum "
            "of their two best softmax scores, which no routing method of moec "
            "does), got the number 4");
  json axk2 = bare("axk2");
  axk2["n_group"] = 4;
  EXPECT_EQ(refused(axk2.dump()),
            "in.json: $.n_group: expected 1 or null (experts of the other "
            "groups count as 0 in this family, and may be chosen), got the "
            "number 4");
  json v41 = json::parse(modelText("deepseek-v4-flash"));
  v41["model_type"] = "deepseek_v41";
  v41["architectures"] = {"DeepseekV41ForCausalLM"};
  v41.erase("num_hash_layers");
  v41.erase("quantization_config");
  v41.erase("expert_dtype");
  EXPECT_EQ(accepted(v41.dump()).hashVocabulary, 0);
  v41["vision_config"] = {{"num_hidden_layers", 24}};
  EXPECT_EQ(refused(v41.dump()),
            "in.json: $.vision_config: expected null (image tokens choose "
            "experts by a bias of their own; --ignore-field supports text "
            "tokens only), got an object");
  json plain = json::parse(modelText("minimax-m2"));
  plain["routed_scaling_factor"] = 2.0;
  EXPECT_EQ(refused(plain.dump()),
            "in.json: $.routed_scaling_factor: expected 1 (the family has no "
            "factor), got the number 2.0");
}

TEST(Families, ExpertsThatAreConstantVectors) {
  json config = json::parse(modelText("qwen3-30b-a3b"));
  // Which layers have some, and the tokens that they are means of.
  config["approximate_experts"] = {{"0", {3, 7}}, {"1", json::array()}};
  config["approximate_expert_init_tokens"] = {{"0", {5, 9}}};
  EXPECT_EQ(refused(config.dump()),
            "in.json: $.approximate_experts: 2 experts of layer 0 are constant "
            "vectors (MoNE), which no importer makes; accepted: --layer of a "
            "layer without any, or a layer JSON with num_constant_experts, for "
            "a router whose constant experts are the last");
  ImportOptions options;
  for (const int64_t layer : {1, 2}) {
    options.layer = layer;
    EXPECT_TRUE(readDescription(config.dump(), "in.json", options)) << layer;
  }
  config["approximate_experts"] = {3, 7};
  EXPECT_EQ(refused(config.dump()),
            "in.json: $.approximate_experts: expected null, or an object with "
            "a list of experts for each layer, got an array");
  config["approximate_experts"] = nullptr;
  EXPECT_EQ(accepted(config.dump()).experts, 128);
}

TEST(Families, AFamilyThatTheCallerNames) {
  json config = json::parse(modelText("deepseek-v3"));
  config["architectures"] = {"MineForCausalLM"};
  config["model_type"] = "mine";
  config.erase("quantization_config");
  ImportOptions options;
  options.as = "deepseek_v3";
  const Result<LayerDescription> layer =
      readDescription(config.dump(), "in.json", options);
  ASSERT_TRUE(layer) << layer.error().message;
  EXPECT_EQ(layer->experts, 256);
  EXPECT_EQ(layer->routing.groups, 8);
  EXPECT_EQ(layer->origin.model, "deepseek_v3");
  options.as = "DeepseekV3ForCausalLM";
  EXPECT_TRUE(readDescription(config.dump(), "in.json", options));
  // Another class has other sizes.
  config.erase("hidden_size");
  EXPECT_EQ(refusalOf(config.dump(), options),
            "in.json: $.hidden_size: expected an integer from 1 to 1048576, "
            "got nothing");
  options.as = "deepseek_v33";
  EXPECT_NE(refusalOf(config.dump(), options)
                .find("--as=deepseek_v33: unknown family (did you mean "
                      "deepseek_v3"),
            std::string::npos);
  EXPECT_EQ(refusalOf(layerText(), options),
            "in.json: --as: expected no --as with a layer JSON, which needs "
            "no family");
}

TEST(Families, PartsAndSharedArchitectures) {
  const json omni = {
      {"model_type", "qwen3_omni_moe"},
      {"dtype", "bfloat16"},
      {"thinker_config",
       {{"text_config",
         {{"model_type", "qwen3_omni_moe_text"}, {"num_experts", 64}}}}}};
  EXPECT_EQ(accepted(omni.dump()).experts, 64);
  EXPECT_EQ(accepted(omni.dump()).hidden, 2048);
  // The model type tells the defaults of two families with one architecture.
  json sarvam = bare("sarvam_moe");
  sarvam["architectures"] = {"Glm4MoeForCausalLM"};
  EXPECT_EQ(accepted(sarvam.dump()).routing.scale, 2.5);
  sarvam["model_type"] = "glm4_moe";
  EXPECT_EQ(accepted(sarvam.dump()).routing.scale, 1.0);
}

TEST(Families, ALimitOfRoutedExpertsAlone) {
  EXPECT_EQ(refused(bare("hy_v4").dump()),
            "in.json: $.swiglu_limit: is the limit of routed experts only, so "
            "that shared experts cannot be computed with them; accepted: "
            "--no-shared-experts");
  EXPECT_EQ(accepted(bare("glm5_next").dump()).activation.limit, 10.0);
  EXPECT_EQ(accepted(bare("glm5_next").dump()).numSharedExperts, 1);
}

TEST(Families, AFactorOfTheOutput) {
  const LayerDescription layer = accepted(bare("beam").dump());
  EXPECT_TRUE(layer.routedScaleOnOutput);
  EXPECT_EQ(layer.routing.scale, 2.5);
  EXPECT_EQ(layer.routing.groups, 8);
  EXPECT_EQ(layer.origin.layer, 3);
}

TEST(Families, FirstDenseLayersOfAList) {
  const LayerDescription layer = accepted(bare("flint").dump());
  EXPECT_EQ(layer.origin.layer, 2);
  json all = bare("flint");
  all["mlp_only_layers"] = json::array();
  EXPECT_EQ(accepted(all.dump()).origin.layer, 0);
  EXPECT_EQ(accepted(bare("step3p5").dump()).origin.layer, 3);
}

TEST(Families, NamesOfOneThing) {
  EXPECT_EQ(accepted(edited("qwen3-30b-a3b", {"num_experts"},
                            {{"num_local_experts", 64}}))
                .experts,
            64);
  EXPECT_EQ(refused(edited("qwen3-30b-a3b", {}, {{"num_local_experts", 64}})),
            "in.json: $.num_local_experts: expected the value of num_experts, "
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
  for (const int64_t all : {1, 8})
    EXPECT_EQ(accepted(changed("deepseek-v3", {{"topk_group", all}}))
                  .routing.topGroups,
              all);
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
       "\"identity\" (zero experts return x unchanged), got the string "
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

TEST(Families, SharedExpertsThatAreSinks) {
  json config = bare("inkling_text");
  const LayerDescription layer = accepted(config.dump());
  EXPECT_EQ(layer.experts, 258);
  EXPECT_EQ(layer.topK, 8);
  EXPECT_EQ(layer.routing.sinks, 2);
  EXPECT_EQ(layer.routing.method, "sigmoid_sinks");
  EXPECT_EQ(layer.routing.scale, 8.0);
  EXPECT_TRUE(layer.routing.bias);
  EXPECT_TRUE(layer.perExpertScale);
  EXPECT_EQ(layer.numSharedExperts, 0);
  EXPECT_EQ(layer.intermediate, 3072);
  // A config with a width of dense layers has the experts' in
  // intermediate_size.
  config["intermediate_size"] = 1024;
  EXPECT_EQ(accepted(config.dump()).intermediate, 3072);
  config["dense_intermediate_size"] = 4096;
  EXPECT_EQ(accepted(config.dump()).intermediate, 1024);
  config["n_routed_experts"] = 64;
  config["n_shared_experts"] = 3;
  config["dense_mlp_idx"] = 2;
  const LayerDescription other = accepted(config.dump());
  EXPECT_EQ(other.experts, 67);
  EXPECT_EQ(other.topK, 9);
  EXPECT_EQ(other.origin.layer, 2);

  ImportOptions apart;
  apart.noSharedExperts = true;
  EXPECT_EQ(refusalOf(config.dump(), apart),
            "in.json: --no-shared-experts: the scores of shared experts are in "
            "the sum that divides all weights of inkling_text, so that the "
            "layer computes them; expected no --no-shared-experts");
  struct Case {
    const char *key;
    json value;
    const char *expected;
  };
  const Case cases[] = {
      {"n_shared_experts", 0, "an integer from 1 to 65536, got the number 0"},
      {"use_gate_bias", false,
       "true, which these models use regardless of the key, got false"},
      {"use_global_scale", false,
       "true, which these models use regardless of the key, got false"},
      {"shared_expert_sink", false,
       "true (the router scores shared experts), got false"},
      {"norm_after_topk", false,
       "true (weights are divided by the sum of a token's), got false"},
      {"gate_activation", "softmax",
       "\"sigmoid\" (scores are sigmoids), got the string \"softmax\""},
      {"inference_moe_w13_interleaved", false,
       "true (rows of gate and up alternate in w13), got false"},
      {"shared_experts_size", 2,
       "1 (shared experts are as wide as the routed ones), got the number 2"},
  };
  for (const Case &each : cases) {
    json changed = config;
    changed[each.key] = each.value;
    EXPECT_EQ(refused(changed.dump()), std::string("in.json: $.") + each.key +
                                           ": expected " + each.expected);
  }
  json mixed = bare("inkling_text");
  mixed["quantization_config"] = {
      {"quant_method", "fp8"},
      {"weight_block_size", {128, 128}},
      {"modules_to_not_convert", {"model.layers.0.mlp.shared_experts"}}};
  EXPECT_EQ(refusalOf(mixed.dump()),
            "in.json: $.quantization_config: leaves shared experts as they "
            "are, so that they cannot be rows of the routed ones; expected one "
            "scheme of both");
}

TEST(Families, MessagesNameTheConfigsOwnModel) {
  EXPECT_EQ(refusedBeside("moonlight-16b-a3b", {{"moe_extra", 1}}),
            "in.json: $.moe_extra: DeepseekV3ForCausalLM has no such key that "
            "moec supports, and its name suggests that it may change the "
            "layer; if it does not, pass --ignore-field=moe_extra");
  json text = json::parse(modelText("granite-3.0-1b-a400m"));
  text["architectures"] = {"GraniteMoeHybridForCausalLM"};
  text["model_type"] = "granitemoehybrid";
  text["moe_extra"] = 1;
  EXPECT_EQ(refused(text.dump()),
            "in.json: $.moe_extra: GraniteMoeHybridForCausalLM has no such key "
            "that moec supports, and its name suggests that it may change the "
            "layer; if it does not, pass --ignore-field=moe_extra");
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
