//===- ModelsTest.cpp - what the models of examples/ mean -----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every config of examples/models/ in one line: the layer that it means. Read
// with --scheme=bf16; the schemes of those that name one stand in a table of
// their own.
//
//===----------------------------------------------------------------------===//

#include "test/import/ImportTesting.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

using namespace moec;
using namespace moec::compiler;
using namespace moec::compiler::testing;

namespace {

std::string textOf(const LayerDescription &layer) {
  std::string text = fmt::format("{}/{} {}x{}", layer.topK, layer.experts,
                                 layer.hidden, layer.intermediate);
  const auto add = [&](bool given, std::string_view word) {
    if (given)
      text += fmt::format(" {}", word);
  };
  const auto number = [&](std::string_view word, std::optional<double> value) {
    if (value)
      text += fmt::format(" {}={}", word, *value);
  };
  add(layer.latentHidden, fmt::format("latent={}", layer.latentHidden));
  add(true, layer.routing.method == "auto" ? layer.routing.scoring
                                           : layer.routing.method);
  add(layer.routing.bias, "bias");
  add(layer.routing.renormalize.value_or(false), "renormalize");
  add(layer.routing.groups, fmt::format("groups={}/{}", layer.routing.topGroups,
                                        layer.routing.groups));
  number("scale", layer.routing.scale);
  add(layer.perExpertScale, "per_expert_scale");
  add(layer.hashVocabulary, fmt::format("hash={}", layer.hashVocabulary));
  add(layer.zeroExperts, fmt::format("zero={}", layer.zeroExperts));
  add(true, layer.activation.function);
  number("alpha", layer.activation.alpha);
  number("beta", layer.activation.beta);
  number("linear_beta", layer.activation.linearBeta);
  number("limit", layer.activation.limit);
  add(layer.hasBias, "biases");
  add(layer.gateUpOrder != "gate_first", layer.gateUpOrder);
  add(layer.numSharedExperts,
      fmt::format("shared={}x{}", layer.numSharedExperts,
                  layer.sharedIntermediate ? layer.sharedIntermediate
                                           : layer.intermediate));
  add(layer.sharedExpertGate, "gate");
  return text;
}

std::string meaning(const std::string &name, std::optional<int64_t> number,
                    bool shared = true) {
  ImportOptions options;
  options.noSharedExperts = !shared;
  options.scheme = "bf16";
  options.layer = number;
  Result<LayerDescription> layer =
      readDescription(modelText(name), name + ".json", options);
  return layer ? textOf(*layer) : layer.error().message;
}

struct Model {
  std::string_view name, layer;
};

constexpr Model kModels[] = {
    {"a.x-k1", "8/192 7168x2048 sigmoid bias renormalize groups=4/8 scale=2.5 "
               "silu shared=1x2048"},
    {"afmoe",
     "6/64 2048x1408 sigmoid bias renormalize scale=1 silu shared=2x1408"},
    {"arctic", "2/128 7168x4864 softmax renormalize silu"},
    {"dbrx", "4/16 6144x10752 softmax renormalize silu"},
    {"deepseek-v2",
     "6/160 5120x1536 softmax groups=3/8 scale=16 silu shared=2x1536"},
    {"deepseek-v2-lite", "6/64 2048x1408 softmax scale=1 silu shared=2x1408"},
    {"deepseek-v3", "8/256 7168x2048 sigmoid bias renormalize groups=4/8 "
                    "scale=2.5 silu shared=1x2048"},
    {"deepseek-v3.2", "8/256 7168x2048 sigmoid bias renormalize groups=4/8 "
                      "scale=2.5 silu shared=1x2048"},
    {"deepseek-v4-flash", "6/256 4096x2048 sqrtsoftplus renormalize scale=1.5 "
                          "hash=129280 silu limit=10 shared=1x2048"},
    {"deepseek-v4-pro", "6/384 7168x3072 sqrtsoftplus renormalize scale=2.5 "
                        "hash=129280 silu limit=10 shared=1x3072"},
    {"ernie-4.5-21b-a3b",
     "6/64 2560x1536 softmax bias renormalize silu shared=2x1536"},
    {"ernie-4.5-300b-a47b", "8/64 8192x3584 softmax bias renormalize silu"},
    {"gemma-4-26b-a4b",
     "8/128 2816x704 softmax renormalize per_expert_scale gelu_tanh"},
    {"glm-4.5",
     "8/160 5120x1536 sigmoid bias renormalize scale=2.5 silu shared=1x1536"},
    {"glm-4.5-air",
     "8/128 4096x1408 sigmoid bias renormalize scale=1 silu shared=1x1408"},
    {"glm-4.7-flash",
     "4/64 2048x1536 sigmoid bias renormalize scale=1.8 silu shared=1x1536"},
    {"glm-5.1",
     "8/256 6144x2048 sigmoid bias renormalize scale=2.5 silu shared=1x2048"},
    {"gpt-oss-120b", "4/128 2880x2880 renormalize swigluoai alpha=1.702 beta=1 "
                     "limit=7 biases interleaved"},
    {"gpt-oss-20b", "4/32 2880x2880 renormalize swigluoai alpha=1.702 beta=1 "
                    "limit=7 biases interleaved"},
    {"granite-3.0-1b-a400m", "8/32 1024x512 renormalize silu"},
    {"hunyuan-a13b", "8/64 4096x3072 softmax renormalize silu shared=1x3072"},
    {"hy3",
     "8/192 4096x1536 sigmoid bias renormalize scale=2.826 silu shared=1x1536"},
    {"jamba-v0.1", "2/16 4096x14336 softmax silu"},
    {"kimi-k2",
     "8/384 7168x2048 sigmoid bias renormalize scale=2.827 silu shared=1x2048"},
    {"kimi-k3", "16/896 7168x3072 latent=3584 sigmoid bias renormalize scale=1 "
                "situ beta=4 linear_beta=25 shared=2x3072"},
    {"laguna-xs.2",
     "8/256 2048x512 sigmoid bias renormalize scale=2.5 silu shared=1x512"},
    {"lfm2-8b-a1b", "4/32 2048x1792 sigmoid bias renormalize scale=1 silu"},
    {"llama-4-maverick", "1/128 5120x8192 llama4 silu shared=1x8192"},
    {"llama-4-scout", "1/16 5120x8192 llama4 silu shared=1x8192"},
    {"longcat-flash", "12/512 6144x2048 longcat scale=6 zero=256 silu"},
    {"minimax-m2", "8/256 3072x1536 sigmoid bias renormalize silu"},
    {"minimax-m3",
     "4/128 6144x3072 sigmoid bias renormalize scale=2 swigluoai_uninterleave "
     "alpha=1.702 beta=1 limit=7 shared=1x3072"},
    {"minimax-text-01", "2/32 6144x9216 softmax renormalize silu"},
    {"mixtral-8x22b", "2/8 6144x16384 softmax renormalize silu"},
    {"mixtral-8x7b", "2/8 4096x14336 softmax renormalize silu"},
    {"moonlight-16b-a3b",
     "6/64 2048x1408 sigmoid bias renormalize scale=2.446 silu shared=2x1408"},
    {"nemotron-3-nano-30b-a3b", "6/128 2688x1856 sigmoid bias renormalize "
                                "scale=2.5 relu2_no_mul shared=1x3712"},
    {"nemotron-3-super-120b-a12b",
     "22/512 4096x2688 latent=1024 sigmoid bias renormalize scale=5 "
     "relu2_no_mul shared=1x5376"},
    {"olmoe-1b-7b", "8/64 2048x1024 softmax silu"},
    {"phi-3.5-moe", "2/16 4096x6400 sparsemixer silu"},
    {"qwen1.5-moe-a2.7b", "4/60 2048x1408 softmax silu shared=1x5632 gate"},
    {"qwen2-57b-a14b", "8/64 3584x2560 softmax silu shared=1x20480 gate"},
    {"qwen3-235b-a22b", "8/128 4096x1536 softmax renormalize silu"},
    {"qwen3-30b-a3b", "8/128 2048x768 softmax renormalize silu"},
    {"qwen3-30b-a3b-fp8", "8/128 2048x768 softmax renormalize silu"},
    {"qwen3-coder-480b-a35b", "8/160 6144x2560 softmax renormalize silu"},
    {"qwen3-next-80b-a3b",
     "10/512 2048x512 softmax renormalize silu shared=1x512 gate"},
    {"qwen3.5-35b-a3b",
     "8/256 2048x512 softmax renormalize silu shared=1x512 gate"},
    {"qwen3.5-397b-a17b",
     "10/512 4096x1024 softmax renormalize silu shared=1x1024 gate"},
    {"step-3.5-flash",
     "8/288 4096x1280 sigmoid bias renormalize scale=3 silu shared=1x1280"},
    {"step3", "3/48 7168x5120 softmax silu shared=1x5120"},
};

TEST(Models, EachMeansItsLayer) {
  for (const Model &model : kModels)
    EXPECT_EQ(meaning(std::string(model.name), {}), model.layer) << model.name;
}

TEST(Models, ALayerByNumber) {
  // Three layers take ids from a table, the others by scores.
  EXPECT_EQ(meaning("deepseek-v4-flash", 3),
            "6/256 4096x2048 sqrtsoftplus bias renormalize scale=1.5 silu "
            "limit=10 shared=1x2048");
  // Its shared experts have another limit, so that they stay the caller's.
  EXPECT_EQ(meaning("step-3.5-flash", 43),
            "step-3.5-flash.json: $.swiglu_limits_shared[43]: expected the "
            "limit of the routed experts, 7.0, or --no-shared-experts, got "
            "the number 0.0");
  EXPECT_EQ(meaning("step-3.5-flash", 43, false),
            "8/288 4096x1280 sigmoid bias renormalize scale=3 swiglustep "
            "limit=7");
  const auto dense = [](const char *name, int64_t number, const char *key,
                        const char *reason) {
    EXPECT_EQ(meaning(name, number),
              fmt::format("{}.json: $.{}: expected --layer to name a layer "
                          "with experts, got --layer={}: {}",
                          name, key, number, reason));
  };
  dense("deepseek-v3", 2, "first_k_dense_replace",
        "with first_k_dense_replace 3 layer 2 is dense");
  dense("llama-4-maverick", 2, "text_config.interleave_moe_layer_step",
        "with interleave_moe_layer_step 2 layer 2 is dense");
  dense("jamba-v0.1", 4, "expert_layer_period",
        "with expert_layer_period 2 and expert_layer_offset 1 layer 4 is "
        "dense");
  // moe_layer_end_index 27 is the last layer with experts, and the last one.
  EXPECT_EQ(meaning("ernie-4.5-21b-a3b", 27), meaning("ernie-4.5-21b-a3b", 1));
  for (const int64_t layer : {20, 21}) {
    ImportOptions options;
    options.layer = layer;
    EXPECT_EQ(bool(readDescription(
                  changed("ernie-4.5-21b-a3b", {{"moe_layer_end_index", 20}}),
                  "in.json", options)),
              layer == 20);
  }
  dense("ernie-4.5-21b-a3b", 0, "moe_layer_start_index",
        "with moe_layer_start_index 1 layer 0 is dense");
  dense("nemotron-3-nano-30b-a3b", 5, "hybrid_override_pattern",
        "hybrid_override_pattern has a '*' for layer 5");
  dense("laguna-xs.2", 0, "mlp_layer_types",
        "mlp_layer_types calls layer 0 \"dense\"");
  dense("minimax-m3", 1, "text_config.moe_layer_freq",
        "moe_layer_freq has a 0 for layer 1");
  dense("step3", 60, "text_config.moe_layers_enum",
        "layer 60 does not stand in moe_layers_enum");
}

TEST(Models, SharedExpertsMayBeTheCallers) {
  ImportOptions options;
  options.noSharedExperts = true;
  Result<LayerDescription> layer =
      readDescription(modelText("deepseek-v3"), "deepseek-v3.json", options);
  ASSERT_TRUE(layer);
  EXPECT_EQ(layer->numSharedExperts, 0);
  EXPECT_EQ(layer->quant.scheme, "fp8_block");
}

TEST(Models, PerLayerListsAndOtherNames) {
  EXPECT_EQ(refusalOf(changed("hunyuan-a13b", {{"moe_topk", {8, 8}}})),
            "in.json: $.moe_topk: expected a number, or a list of one for "
            "each of 32 layers, got an array");
  EXPECT_EQ(refusalOf(changed("hunyuan-a13b",
                              {{"moe_topk", std::vector<int>(32, 65)}})),
            "in.json: $.moe_topk[0]: expected an integer from 1 to 64, got "
            "the number 65");
  EXPECT_EQ(refusalOf(changed("gpt-oss-20b", {{"experts_per_token", 5},
                                              {"quantization_config", {}}})),
            "in.json: $.experts_per_token: expected the value of "
            "num_experts_per_tok, the number 4, got the number 5");
  EXPECT_EQ(refusalOf(changed("phi-3.5-moe", {{"router_jitter_noise", 0.02}})),
            "in.json: $.router_jitter_noise: expected 0.01 (routing method "
            "sparsemixer supports only this threshold), got the number 0.02");
  EXPECT_EQ(
      refusalOf(changed(
          "dbrx", {{"ffn_config", {{"moe_normalize_expert_weights", 2}}}})),
      "in.json: $.ffn_config.moe_normalize_expert_weights: expected 1 (weights "
      "are divided by their sum) or null, got the number 2");
}

/// The layer JSON that a config became is the same layer.
TEST(Models, EachIsItsLayerJson) {
  int written = 0;
  for (const auto &file :
       std::filesystem::directory_iterator(sourcePath("examples/models"))) {
    const std::string name = file.path().stem();
    for (int64_t tp : {1, 2}) {
      ImportOptions options;
      options.noSharedExperts = tp == 2 && name != "tiny";
      options.tp = tp;
      Result<LayerDescription> layer =
          readDescription(modelText(name), name, options);
      if (!layer)
        continue;
      const Result<std::string> text = writeLayerJson(*layer);
      ASSERT_TRUE(text) << name << ": " << text.error().message;
      Result<LayerDescription> again = readDescription(*text, name, {});
      ASSERT_TRUE(again) << name << ": " << again.error().message << *text;
      again->origin = layer->origin;
      EXPECT_EQ(*again, *layer) << *text;
      ++written;
    }
  }
  EXPECT_GT(written, 80);
  ImportOptions part;
  part.part = "route";
  const Result<LayerDescription> route =
      readDescription(modelText("mixtral-8x7b"), "in.json", part);
  ASSERT_TRUE(route);
  EXPECT_EQ(writeLayerJson(*route).error().message,
            "--emit=layer-json: expected no --part, which a layer JSON does "
            "not say; accepted: the same where it is compiled");
  ImportOptions all;
  all.tp = 2;
  all.allRanks = true;
  const Result<LayerDescription> ranks =
      readDescription(modelText("mixtral-8x7b"), "in.json", all);
  ASSERT_TRUE(ranks) << ranks.error().message;
  EXPECT_EQ(writeLayerJson(*ranks).error().message,
            "--emit=layer-json: expected no --all-ranks, which a layer JSON "
            "does not say; accepted: the same where it is compiled");
}

TEST(Models, AllOfThemStandHere) {
  std::set<std::string> files, named = {"tiny"}; // a layer JSON
  for (const auto &file :
       std::filesystem::directory_iterator(sourcePath("examples/models")))
    files.insert(file.path().stem());
  for (const Model &model : kModels)
    named.insert(std::string(model.name));
  EXPECT_EQ(files, named);
}

} // namespace
