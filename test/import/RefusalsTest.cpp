//===- RefusalsTest.cpp - refusals that no other test expects -------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The whole message of each.
//
//===----------------------------------------------------------------------===//

#include "test/import/ImportTesting.h"

#include <gtest/gtest.h>

using namespace moec;
using namespace moec::compiler;
using namespace moec::compiler::testing;
using nlohmann::json;

namespace {

std::string refused(const json &changes, const ImportOptions &options = {}) {
  return refusalOf(layerText(changes), options);
}

LayerDescription accepted() {
  return *readDescription(layerText(), "in.json", {});
}

TEST(Refusals, FieldsThatThisFormatHasNot) {
  const std::pair<const char *, const char *> ofLayer[] = {
      {"num_logical_experts",
       "say num_experts (logical) and num_redundant_experts"},
      {"intermediate_size_per_partition",
       "moec computes it; say the whole layer's intermediate_size"},
      {"intermediate_pad",
       "say intermediate_size without padding, and of padded weights "
       "stored_intermediate_size_per_partition"},
      {"shared_expert_prefix", "say n_shared_experts"},
      {"defer_moe_finalize_max_num_tokens",
       "defer_moe_finalize is for every token count"},
      {"device", "the options --arch and --gpu specify it"},
      {"max_num_tokens", "the option --max-tokens specifies it"},
      {"max_capture_size", "every token count can be captured"}};
  for (auto [field, reason] : ofLayer)
    EXPECT_EQ(refused({{field, 8}}),
              std::string("in.json: $.") + field +
                  ": no field of this format: " + reason);
  const std::pair<const char *, const char *> ofQuantization[] = {
      {"gemm1_beta", "say swiglu_beta of the layer, or activation_per_expert"},
      {"gemm1_clamp_limit",
       "say swiglu_limit of the layer, or activation_per_expert"},
      {"mx_alignment", "say stored_hidden_size and "
                       "stored_intermediate_size_per_partition of the "
                       "layer"}};
  for (auto [field, reason] : ofQuantization)
    EXPECT_EQ(refused({{"quant_config", {{"scheme", "bf16"}, {field, 8}}}}),
              std::string("in.json: $.quant_config.") + field +
                  ": no field of this format: " + reason);
}

/// A command line's option without effect is refused, a library's is not.
TEST(Refusals, NoSharedExperts) {
  ImportOptions options;
  options.noSharedExperts = true;
  const auto said = [&](int64_t shared) {
    const json config = {{"model_type", "deepseek_v3"},
                         {"n_shared_experts", shared}};
    Result<LayerDescription> layer =
        readDescription(config.dump(), "in.json", options);
    return layer ? "" : layer.error().message;
  };
  constexpr const char *kWhy = "--no-shared-experts: the config has no shared "
                               "experts; leave the option out";
  EXPECT_EQ(said(0).find(kWhy), std::string::npos) << said(0);
  options.needsSharedExperts = true;
  EXPECT_NE(said(0).find(kWhy), std::string::npos) << said(0);
  EXPECT_EQ(said(1).find(kWhy), std::string::npos) << said(1);
  options.noSharedExperts = false;
  EXPECT_EQ(said(0).find(kWhy), std::string::npos) << said(0);
}

TEST(Refusals, LayerJson) {
  EXPECT_EQ(
      refused(
          {{"quant_config",
            {{"w1", {{"dtype", "i8"}, {"shape", {0, 1}}, {"scale", "f32"}}}}}}),
      "in.json: $.quant_config.w1.shape: expected extents of -1 (all) or at "
      "least 1, got an array");
  ImportOptions options;
  options.noSharedExperts = true;
  EXPECT_EQ(refused({}, options),
            "in.json: --no-shared-experts: expected no --no-shared-experts "
            "with a layer JSON, whose n_shared_experts specifies it");
  options = {};
  options.accumulate = "half";
  EXPECT_EQ(refused({}, options),
            "in.json: --accumulate=half: expected f32 or fast");
}

TEST(Refusals, AllMistakesOfALayerJson) {
  EXPECT_EQ(
      refused({{"num_experts", -1},
               {"top_k", 9},
               {"hidden_size", nullptr},
               {"hiden_size", 64},
               {"has_bias", "yes"},
               {"colour", 1},
               {"moe_parallel_config", {{"tp_size", 0}, {"tp_rank", 1}}}}),
      "in.json: $.num_experts: expected an integer from 1 to 65536, got "
      "the number -1\n"
      "in.json: $.hidden_size: expected an integer from 1 to 1048576, got "
      "nothing; did you mean it by \"hiden_size\"?\n"
      "in.json: $.has_bias: expected true or false, got the string "
      "\"yes\"\n"
      "in.json: $.moe_parallel_config.tp_size: expected an integer from "
      "1 to 65536, got the number 0\n" +
          refused({{"colour", 1}}));
  EXPECT_EQ(refused({{"num_expert_group", 4}, {"topk_group", 5}}),
            "in.json: $.topk_group: expected an integer from 0 to 4, got the "
            "number 5");
}

TEST(Refusals, AllMistakesOfAConfig) {
  EXPECT_EQ(
      refusalOf(changed("qwen3-30b-a3b", {{"num_experts", nullptr},
                                          {"num_expert", 128},
                                          {"num_experts_per_tok", "8"},
                                          {"norm_topk_prob", 1},
                                          {"moe_colour", 1}})),
      "in.json: $.num_experts: expected an integer from 1 to 65536, got "
      "nothing; did you mean it by \"num_expert\"?\nin.json: "
      "$.num_experts_per_tok: expected an integer from 1 to 65536, got the "
      "string \"8\"\nin.json: $.norm_topk_prob: expected true or false, got "
      "the number 1\nin.json: $.moe_colour: Qwen3MoeForCausalLM has no such "
      "key that moec supports, and its name suggests that it may change the "
      "layer; if it does not, pass --ignore-field=moe_colour");
}

TEST(Refusals, MessagesHaveTheInputsWords) {
  const Words words = accepted().origin.words;
  EXPECT_EQ(inWords("'limit' must be at most 8, and 'bias' is no top_groups, "
                    "x_top_groups or 'rows'",
                    words),
            "'swiglu_limit' must be at most 8, and 'e_score_correction_bias' "
            "is no topk_group, x_top_groups or 'rows'");
}

TEST(Refusals, LimitsOfActivations) {
  EXPECT_EQ(refusalOf(changed("gpt-oss-20b", {{"swiglu_limit", 0}})),
            "in.json: $.swiglu_limit: expected a number above 0, or none, got "
            "the number 0");
  json limits = json::parse(modelText("step-3.5-flash"))["swiglu_limits"];
  limits[3] = "7";
  EXPECT_EQ(refusalOf(changed("step-3.5-flash", {{"swiglu_limits", limits}})),
            "in.json: $.swiglu_limits[3]: expected a number, got the string "
            "\"7\"");
}

TEST(Refusals, LayersThatHaveExperts) {
  EXPECT_EQ(refusalOf(changed("qwen3-30b-a3b", {{"mlp_only_layers", "3"}})),
            "in.json: $.mlp_only_layers: expected an array of integers, got "
            "the string \"3\"");
  EXPECT_EQ(refusalOf(changed("step-3.5-flash", {{"moe_layers_enum", "3;4"}})),
            "in.json: $.moe_layers_enum: expected numbers of layers with "
            "commas between, got the string \"3;4\"");
  EXPECT_EQ(refusalOf(changed("nemotron-3-nano-30b-a3b",
                              {{"hybrid_override_pattern", "ME"}})),
            "in.json: $.hybrid_override_pattern: expected a letter for each "
            "of 52 layers, got the string \"ME\"");
  EXPECT_EQ(refusalOf(changed("deepseek-v3", {{"moe_layer_freq", {0, 1}}})),
            "in.json: $.moe_layer_freq: expected a 0 or 1 for each of 61 "
            "layers, got an array");
  EXPECT_EQ(
      refusalOf(changed("gemma-4-26b-a4b",
                        {{"text_config", {{"enable_moe_block", false}}}})),
      "in.json: $.text_config.enable_moe_block: expected a model with "
      "experts, got one whose 30 layers are all dense "
      "(enable_moe_block)");
  ImportOptions first;
  first.layer = 0;
  EXPECT_EQ(refusalOf(changed("gemma-4-26b-a4b",
                              {{"text_config", {{"enable_moe_block", false}}}}),
                      first),
            "in.json: $.text_config.enable_moe_block: expected --layer to name "
            "a layer with experts, got --layer=0: enable_moe_block is false: "
            "layer 0 is dense");
}

} // namespace
