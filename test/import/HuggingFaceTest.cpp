//===- HuggingFaceTest.cpp - config.json of models ------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/import/ImportTesting.h"

#include <gtest/gtest.h>

using namespace moec;
using namespace moec::compiler;
using namespace moec::compiler::testing;
using nlohmann::json;

namespace {

LayerDescription accepted(const std::string &text,
                          const ImportOptions &options = {},
                          const std::string &name = "in.json") {
  Result<LayerDescription> layer = readDescription(text, name, options);
  if (!layer) {
    ADD_FAILURE() << layer.error().message;
    return {};
  }
  return *layer;
}

constexpr char kDirect[] =
    "for another model describe the layer itself in a layer JSON "
    "({\"moec_layer\": 1, \"num_experts\": ..., \"experts_per_token\": ..., "
    "\"hidden_dim\": ..., \"intermediate_size\": ..., \"in_dtype\": ...}, see "
    "docs/layer-json.md)";

TEST(HuggingFace, Qwen3WithNormTopkProb) {
  LayerDescription layer =
      accepted(modelText("qwen3-30b-a3b"), {}, "a/qwen3-30b-a3b.json");
  EXPECT_EQ(layer.name, "qwen3-30b-a3b");
  EXPECT_EQ(layer.numExperts, 128);
  EXPECT_EQ(layer.topK, 8);
  EXPECT_EQ(layer.hidden, 2048);
  EXPECT_EQ(layer.intermediate, 768);
  EXPECT_EQ(layer.inputType, "bf16");
  EXPECT_EQ(layer.outputType, "bf16");
  EXPECT_EQ(layer.logitsType, "bf16");
  EXPECT_EQ(layer.quant.scheme, "bf16");
  EXPECT_EQ(layer.routing.method, "renormalize_naive");
  EXPECT_EQ(layer.activation.function, "silu");
  EXPECT_FALSE(layer.hasBias);
}

TEST(HuggingFace, Qwen3WithoutNormTopkProb) {
  EXPECT_EQ(accepted(changed("qwen3-30b-a3b", {{"norm_topk_prob", false}}))
                .routing.method,
            "default");
  EXPECT_EQ(accepted(changed("qwen3-30b-a3b", {{"norm_topk_prob", nullptr}}))
                .routing.method,
            "default");
}

TEST(HuggingFace, Qwen3Large) {
  LayerDescription layer = accepted(modelText("qwen3-235b-a22b"));
  EXPECT_EQ(layer.numExperts, 128);
  EXPECT_EQ(layer.topK, 8);
  EXPECT_EQ(layer.hidden, 4096);
  EXPECT_EQ(layer.intermediate, 1536);
}

TEST(HuggingFace, Mixtral) {
  LayerDescription layer = accepted(modelText("mixtral-8x7b"));
  EXPECT_EQ(layer.numExperts, 8);
  EXPECT_EQ(layer.topK, 2);
  EXPECT_EQ(layer.hidden, 4096);
  EXPECT_EQ(layer.intermediate, 14336);
  EXPECT_EQ(layer.routing.method, "renormalize_naive");
}

TEST(HuggingFace, FileCalledConfigTakesTheModelType) {
  EXPECT_EQ(accepted(modelText("mixtral-8x7b"), {}, "m/config.json").name,
            "mixtral");
}

TEST(HuggingFace, ModelTypeAlone) {
  EXPECT_EQ(
      accepted(changed("mixtral-8x7b", {{"architectures", nullptr}})).topK, 2);
  EXPECT_EQ(refusalOf(changed("mixtral-8x7b", {{"architectures", nullptr},
                                               {"model_type", "llama"}})),
            std::string("in.json: $.model_type: unknown model type the string "
                        "\"llama\", and no \"architectures\"; known: "
                        "MixtralForCausalLM and Qwen3MoeForCausalLM; ") +
                kDirect);
}

TEST(HuggingFace, UnknownArchitecture) {
  EXPECT_EQ(refusalOf(changed("mixtral-8x7b",
                              {{"architectures", {"LlamaForCausalLM"}}})),
            std::string("in.json: $.architectures: unknown architecture the "
                        "string \"LlamaForCausalLM\"; known: "
                        "MixtralForCausalLM and Qwen3MoeForCausalLM; ") +
                kDirect);
  EXPECT_EQ(refusalOf(changed("mixtral-8x7b", {{"architectures", "Mixtral"}})),
            "in.json: $.architectures: expected an array of names, got the "
            "string \"Mixtral\"");
  EXPECT_EQ(refusalOf(changed("mixtral-8x7b", {{"architectures", {"A", "B"}}})),
            "in.json: $.architectures: expected one architecture, got 2");
}

TEST(HuggingFace, SuspiciousKeysAreNamed) {
  for (const char *key :
       {"num_shared_experts", "moe_layer_freq", "Router_Bias", "gate_scale",
        "top_k", "topk_group", "shared_mlp", "quant_bits", "logit_scaling",
        "activation_fn", "swiglu_limit"}) {
    std::string text = changed("mixtral-8x7b", {{key, 1}});
    EXPECT_EQ(refusalOf(text),
              std::string("in.json: $.") + key +
                  ": MixtralForCausalLM has no such key that moec knows, and "
                  "its name says that it may change the layer; if it does "
                  "not, pass --ignore-field=" +
                  key);
    ImportOptions options;
    options.ignoreFields = {key};
    EXPECT_EQ(refusalOf(text, options), "");
  }
}

TEST(HuggingFace, OtherKeysAreIgnored) {
  EXPECT_EQ(refusalOf(changed("mixtral-8x7b", {{"attn_window", 3},
                                               {"id2label", {{"0", "a"}}}})),
            "");
}

TEST(HuggingFace, TypesAndRanges) {
  auto with = [](const char *key, const json &value) {
    json config = json::parse(modelText("qwen3-30b-a3b"));
    config[key] = value;
    return refusalOf(config.dump());
  };
  EXPECT_EQ(with("num_experts", "128"),
            "in.json: $.num_experts: expected an integer from 1 to 65536, got "
            "the string \"128\"");
  EXPECT_EQ(with("num_experts", 0), "in.json: $.num_experts: expected an "
                                    "integer from 1 to 65536, got the number "
                                    "0");
  EXPECT_EQ(with("num_experts_per_tok", 129),
            "in.json: $.num_experts_per_tok: expected an integer from 1 to "
            "128, got the number 129");
  EXPECT_EQ(with("hidden_size", 2048.0),
            "in.json: $.hidden_size: expected an integer from 1 to 1048576, "
            "got the number 2048.0");
  EXPECT_EQ(with("hidden_size", 18446744073709551615ull),
            "in.json: $.hidden_size: expected an integer from 1 to 1048576, "
            "got the number 18446744073709551615");
  EXPECT_EQ(with("moe_intermediate_size", nullptr),
            "in.json: $.moe_intermediate_size: expected an integer from 1 to "
            "16777216, got null");
  EXPECT_EQ(with("norm_topk_prob", 1),
            "in.json: $.norm_topk_prob: expected true or false, got the "
            "number 1");
  EXPECT_EQ(with("hidden_act", "relu"),
            "in.json: $.hidden_act: expected \"silu\", \"swish\", \"gelu\", "
            "\"gelu_new\" or \"gelu_pytorch_tanh\", got the string \"relu\"");
  EXPECT_EQ(with("mlp_only_layers", {1, -2}),
            "in.json: $.mlp_only_layers[1]: expected an integer from 0 to "
            "65536, got the number -2");
  EXPECT_EQ(with("torch_dtype", "float8_e4m3fn"),
            "in.json: $.torch_dtype: expected bf16, f16 or f32 (or PyTorch's "
            "bfloat16, float16, float32), got the string \"float8_e4m3fn\"");
  EXPECT_EQ(with("dtype", "float16"),
            "in.json: $.dtype: expected what torch_dtype says, the string "
            "\"bfloat16\", got the string \"float16\"");
  EXPECT_EQ(with("dtype", "bfloat16"), "");
}

TEST(HuggingFace, ActivationNames) {
  auto function = [](const char *name) {
    return accepted(changed("mixtral-8x7b", {{"hidden_act", name}}))
        .activation.function;
  };
  EXPECT_EQ(function("silu"), "silu");
  EXPECT_EQ(function("swish"), "silu");
  EXPECT_EQ(function("gelu"), "gelu");
  EXPECT_EQ(function("gelu_new"), "gelu_tanh");
  EXPECT_EQ(function("gelu_pytorch_tanh"), "gelu_tanh");
}

TEST(HuggingFace, DenseLayersAreRefused) {
  ImportOptions first, second;
  first.layer = 0;
  second.layer = 1;
  std::string sparse = changed("qwen3-30b-a3b", {{"decoder_sparse_step", 2}});
  EXPECT_EQ(refusalOf(sparse, first),
            "in.json: $.decoder_sparse_step: expected --layer to name a layer "
            "with experts, got --layer=0: with decoder_sparse_step 2 layer 0 "
            "is dense");
  EXPECT_EQ(refusalOf(sparse, second), "");
  EXPECT_EQ(refusalOf(sparse), "");
  std::string listed = changed("qwen3-30b-a3b", {{"mlp_only_layers", {0}}});
  EXPECT_EQ(refusalOf(listed, first),
            "in.json: $.decoder_sparse_step: expected --layer to name a layer "
            "with experts, got --layer=0: layer 0 stands in mlp_only_layers");
  EXPECT_EQ(refusalOf(listed, second), "");
  EXPECT_EQ(refusalOf(changed("qwen3-30b-a3b", {{"decoder_sparse_step", 50}})),
            "in.json: $.decoder_sparse_step: expected a model with experts, "
            "got one whose 48 layers are all dense (decoder_sparse_step 50, "
            "mlp_only_layers of 0)");
  ImportOptions beyond;
  beyond.layer = 48;
  EXPECT_EQ(refusalOf(modelText("qwen3-30b-a3b"), beyond),
            "in.json: $.num_hidden_layers: expected --layer from 0 to 47 (48 "
            "layers), got --layer=48");
}

static std::string schemeOf(nlohmann::json quantization) {
  LayerDescription layer = accepted(
      changed("qwen3-30b-a3b", {{"quantization_config", quantization}}));
  EXPECT_EQ(layer.inputType, "bf16");
  return layer.quant.scheme;
}

static nlohmann::json compressed(nlohmann::json weights,
                                 nlohmann::json activations) {
  for (auto *part : {&weights, &activations}) {
    (*part)["num_bits"] = 8;
    (*part)["type"] = "float";
  }
  return {{"quant_method", "compressed-tensors"},
          {"format", "float-quantized"},
          {"ignore", {"lm_head", "model.layers.0.mlp.gate"}},
          {"config_groups",
           {{"group_0",
             {{"targets", {"Linear"}},
              {"weights", weights},
              {"input_activations", activations}}}}}};
}

TEST(HuggingFace, QuantizationNamesAScheme) {
  nlohmann::json fp8 = {{"quant_method", "fp8"},
                        {"fmt", "e4m3"},
                        {"activation_scheme", "dynamic"},
                        {"modules_to_not_convert", {"model.layers.0.mlp.gate"}},
                        {"weight_block_size", {128, 128}}};
  EXPECT_EQ(schemeOf(fp8), "fp8_block");
  fp8.erase("weight_block_size");
  EXPECT_EQ(schemeOf(fp8), "fp8_tensor_dynamic");
  fp8["activation_scheme"] = "static";
  EXPECT_EQ(schemeOf(fp8), "fp8_tensor");
  EXPECT_EQ(schemeOf(compressed({{"strategy", "channel"}},
                                {{"strategy", "token"}, {"dynamic", true}})),
            "fp8_channel");
  EXPECT_EQ(schemeOf(compressed({{"strategy", "tensor"}},
                                {{"strategy", "tensor"}, {"dynamic", false}})),
            "fp8_tensor");
  EXPECT_EQ(
      schemeOf(compressed(
          {{"strategy", "block"}, {"block_structure", {128, 128}}},
          {{"strategy", "group"}, {"group_size", 128}, {"dynamic", true}})),
      "fp8_block");
}

TEST(HuggingFace, QuantizationThatIsNoSchemeIsRefused) {
  auto refused = [](nlohmann::json quantization) {
    return refusalOf(
        changed("qwen3-30b-a3b", {{"quantization_config", quantization}}));
  };
  const std::string schemes =
      "else name the scheme of the expert weights with --scheme= (known: f32, "
      "f16, bf16, fp8_tensor, fp8_tensor_dynamic, fp8_channel and fp8_block)";
  EXPECT_EQ(refused({{"quant_method", "awq"}}),
            "in.json: $.quantization_config.quant_method: no importer for "
            "quant_method \"awq\"; known: compressed-tensors and fp8; " +
                schemes);
  EXPECT_EQ(refused({{"quant_method", "fp8"}}),
            "in.json: $.quantization_config.activation_scheme: expected "
            "\"dynamic\" or \"static\", got nothing");
  EXPECT_EQ(refused({{"quant_method", "fp8"},
                     {"activation_scheme", "dynamic"},
                     {"weight_block_size", {64, 128}}}),
            "in.json: $.quantization_config.weight_block_size: expected [128, "
            "128], got an array");
  EXPECT_EQ(refused({{"quant_method", "fp8"},
                     {"activation_scheme", "static"},
                     {"weight_block_size", {128, 128}}}),
            "in.json: $.quantization_config.activation_scheme: expected "
            "\"dynamic\" with weight_block_size, got the string \"static\"");
  EXPECT_EQ(refused({{"quant_method", "fp8"},
                     {"activation_scheme", "dynamic"},
                     {"scale_fmt", "ue8m0"},
                     {"weight_block_size", {128, 128}}}),
            "in.json: $.quantization_config.scale_fmt: expected f32 scales (no "
            "scale_fmt), got the string \"ue8m0\"; " +
                schemes);
  EXPECT_EQ(refused({{"quant_method", "fp8"},
                     {"activation_scheme", "dynamic"},
                     {"ignored_layers", {"model.layers.3.mlp.experts.0"}}}),
            "in.json: $.quantization_config.ignored_layers: the string "
            "\"model.layers.3.mlp.experts.0\" names experts, whose layers "
            "would differ from the others; " +
                schemes);
  EXPECT_EQ(refused(compressed({{"strategy", "channel"}},
                               {{"strategy", "tensor"}, {"dynamic", true}})),
            "in.json: $.quantization_config.config_groups: no scheme has "
            "weights of strategy \"channel\" with activations of \"tensor "
            "dynamic\"; accepted: channel with token dynamic, tensor with "
            "tensor (dynamic or not), block with group dynamic; " +
                schemes);
  // A named scheme settles it.
  ImportOptions options;
  options.scheme = "bf16";
  EXPECT_EQ(refusalOf(changed("qwen3-30b-a3b", {{"quantization_config",
                                                 {{"quant_method", "awq"}}}}),
                      options),
            "");
}

TEST(HuggingFace, OptionsWin) {
  ImportOptions options;
  options.dtype = "float16";
  LayerDescription layer = accepted(modelText("qwen3-30b-a3b"), options);
  EXPECT_EQ(layer.inputType, "f16");
  EXPECT_EQ(layer.quant.scheme, "f16");

  options = {};
  options.scheme = "f32";
  layer = accepted(modelText("qwen3-30b-a3b"), options);
  EXPECT_EQ(layer.inputType, "f32");

  options = {};
  options.tp = 4;
  options.rank = 3;
  layer = accepted(modelText("qwen3-30b-a3b"), options);
  EXPECT_EQ(layer.parallel.tp, 4);
  EXPECT_EQ(layer.parallel.tpRank, 3);
}

TEST(HuggingFace, ParallelOptions) {
  // dp slowest, tp fastest: every rank of 2 * 3 * 2.
  for (int64_t rank = 0; rank < 12; ++rank) {
    ImportOptions options;
    options.tp = 2, options.pcp = 3, options.dp = 2;
    options.ep = true;
    options.rank = rank;
    LayerDescription layer = accepted(modelText("qwen3-30b-a3b"), options);
    EXPECT_TRUE(layer.parallel.ep);
    EXPECT_EQ(layer.parallel.ranks(), 12);
    EXPECT_EQ(layer.parallel.rank(), rank);
    EXPECT_EQ(layer.parallel.tpRank, rank % 2);
    EXPECT_EQ(layer.parallel.pcpRank, rank / 2 % 3);
    EXPECT_EQ(layer.parallel.dpRank, rank / 6);
  }
}

TEST(HuggingFace, OptionsThatNothingServes) {
  std::string text = modelText("qwen3-30b-a3b");
  ImportOptions options;
  options.tp = 0;
  EXPECT_EQ(refusalOf(text, options),
            "in.json: --tp=0: expected an integer from 1 to 65536");
  options = {};
  options.dp = -1;
  EXPECT_EQ(refusalOf(text, options),
            "in.json: --dp=-1: expected an integer from 1 to 65536");
  options = {};
  options.pcp = 65537;
  EXPECT_EQ(refusalOf(text, options),
            "in.json: --pcp=65537: expected an integer from 1 to 65536");
  options = {};
  options.tp = 2;
  options.dp = 4;
  options.rank = 8;
  EXPECT_EQ(refusalOf(text, options),
            "in.json: --rank=8: expected an integer from 0 to 7 (8 ranks: dp * "
            "pcp * tp)");
  options = {};
  options.rank = 1;
  EXPECT_EQ(refusalOf(text, options),
            "in.json: --rank=1: expected an integer from 0 to 0 (1 ranks: dp * "
            "pcp * tp)");
  options = {};
  options.scheme = "fp4";
  EXPECT_EQ(
      refusalOf(text, options),
      "in.json: --scheme=fp4: expected one of f32, f16, bf16, fp8_tensor, "
      "fp8_tensor_dynamic, fp8_channel, fp8_block");
  options = {};
  options.dtype = "fp8";
  EXPECT_EQ(refusalOf(text, options),
            "in.json: --dtype=fp8: expected bf16, f16 or f32");
  options = {};
  options.dtype = "f16";
  options.scheme = "bf16";
  EXPECT_EQ(refusalOf(text, options),
            "in.json: scheme bf16 multiplies bf16 activations, got f16; "
            "accepted: --dtype=bf16 or --scheme=f16");
}

} // namespace
