//===- HuggingFaceTest.cpp - config.json of models ------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/import/Vocabulary.h"
#include "dialect/catalog/Schemes.h"
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

const std::string kKnown =
    "AXK1ForCausalLM, AfmoeForCausalLM, ArcticForCausalLM, "
    "DbrxForCausalLM, DeepseekV2ForCausalLM, DeepseekV32ForCausalLM, "
    "DeepseekV3ForCausalLM, DeepseekV4ForCausalLM, "
    "Ernie4_5_MoEForCausalLM, Ernie4_5_MoeForCausalLM, Gemma4ForCausalLM, "
    "Gemma4ForConditionalGeneration, Glm4MoeForCausalLM, "
    "Glm4MoeLiteForCausalLM, Glm4vMoeForConditionalGeneration, "
    "GlmMoeDsaForCausalLM, GptOssForCausalLM, GraniteMoeForCausalLM, "
    "GraniteMoeHybridForCausalLM, GraniteMoeSharedForCausalLM, "
    "HYV3ForCausalLM, HunYuanMoEV1ForCausalLM, HyV3ForCausalLM, "
    "JambaForCausalLM, KimiK25ForConditionalGeneration, "
    "KimiK3ForConditionalGeneration, KimiLinearForCausalLM, "
    "LagunaForCausalLM, Lfm2MoeForCausalLM, Llama4ForCausalLM, "
    "Llama4ForConditionalGeneration, LongcatFlashForCausalLM, "
    "MiniMaxM1ForCausalLM, MiniMaxM2ForCausalLM, "
    "MiniMaxM3SparseForCausalLM, MiniMaxM3SparseForConditionalGeneration, "
    "MiniMaxText01ForCausalLM, MixtralForCausalLM, NemotronHForCausalLM, "
    "OlmoeForCausalLM, PhiMoEForCausalLM, PhimoeForCausalLM, "
    "Qwen2MoeForCausalLM, Qwen3MoeForCausalLM, Qwen3NextForCausalLM, "
    "Qwen3VLMoeForConditionalGeneration, Qwen3_5MoeForCausalLM, "
    "Qwen3_5MoeForConditionalGeneration, Step3TextForCausalLM, "
    "Step3VLForConditionalGeneration and Step3p5ForCausalLM";

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
  EXPECT_EQ(layer.routing.method, "auto");
  EXPECT_EQ(layer.routing.scoring, "softmax");
  EXPECT_TRUE(*layer.routing.renormalize);
  EXPECT_EQ(layer.activation.function, "silu");
  EXPECT_FALSE(layer.hasBias);
}

TEST(HuggingFace, Qwen3WithoutNormTopkProb) {
  for (const json &value : {json(false), json(nullptr)})
    EXPECT_FALSE(
        *accepted(changed("qwen3-30b-a3b", {{"norm_topk_prob", value}}))
             .routing.renormalize);
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
                        "\"llama\", and no \"architectures\"; known: ") +
                kKnown + "; " + kDirect);
}

TEST(HuggingFace, UnknownArchitecture) {
  EXPECT_EQ(refusalOf(changed("mixtral-8x7b",
                              {{"architectures", {"LlamaForCausalLM"}}})),
            std::string("in.json: $.architectures: unknown architecture the "
                        "string \"LlamaForCausalLM\"; known: ") +
                kKnown + "; " + kDirect);
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
            "\"gelu_new\", \"gelu_tanh\", \"gelu_pytorch_tanh\" or "
            "\"situ\", got the string \"relu\"");
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
            "in.json: $.mlp_only_layers: expected --layer to name a layer "
            "with experts, got --layer=0: layer 0 stands in mlp_only_layers");
  EXPECT_EQ(refusalOf(listed, second), "");
  EXPECT_EQ(refusalOf(changed("qwen3-30b-a3b", {{"decoder_sparse_step", 50}})),
            "in.json: $.decoder_sparse_step: expected a model with experts, "
            "got one whose 48 layers are all dense (decoder_sparse_step, "
            "mlp_only_layers)");
  ImportOptions beyond;
  beyond.layer = 48;
  EXPECT_EQ(
      refusalOf(modelText("qwen3-30b-a3b"), beyond),
      "in.json: --layer=48: expected an integer from 0 to 47 (48 layers)");
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
  nlohmann::json ofIntegers = compressed(
      {{"strategy", "channel"}}, {{"strategy", "token"}, {"dynamic", true}});
  ofIntegers["format"] = "int-quantized";
  nlohmann::json &group = ofIntegers["config_groups"]["group_0"];
  group["weights"]["type"] = group["input_activations"]["type"] = "int";
  EXPECT_EQ(schemeOf(ofIntegers), "int8_channel");
  group["weights"]["strategy"] = "tensor";
  group["input_activations"]["strategy"] = "tensor";
  EXPECT_EQ(schemeOf(ofIntegers), "int8_tensor_dynamic");
  group["input_activations"]["dynamic"] = false;
  EXPECT_EQ(schemeOf(ofIntegers), "int8_tensor");
}

/// The scheme of weights alone, and the size of their groups.
static std::string weightsOf(nlohmann::json quantization) {
  const LayerDescription layer = accepted(
      changed("qwen3-30b-a3b", {{"quantization_config", quantization}}));
  return layer.quant.scheme + " " + std::to_string(layer.quant.groupSize) +
         (layer.storedLayout == "rows" ? "" : " " + layer.storedLayout) +
         (layer.groupIndex ? " index" : "");
}

TEST(HuggingFace, QuantizationOfWeightsAlone) {
  nlohmann::json gptq = {{"quant_method", "gptq"},
                         {"bits", 4},
                         {"group_size", 64},
                         {"desc_act", false},
                         {"sym", true}};
  EXPECT_EQ(weightsOf(gptq), "int4_w4a16 64 gptq");
  gptq["checkpoint_format"] = "gptq_v2";
  gptq["sym"] = false;
  EXPECT_EQ(weightsOf(gptq), "int4_zp_w4a16 64 gptq_v2");
  gptq["checkpoint_format"] = "gptq";
  gptq["sym"] = true;
  gptq["group_size"] = -1;
  EXPECT_EQ(weightsOf(gptq), "int4_w4a16 -1 gptq");
  // Rows of k are in groups that g_idx says.
  gptq["desc_act"] = true;
  gptq["group_size"] = 64;
  EXPECT_EQ(weightsOf(gptq), "int4_w4a16 64 gptq index");
  // One group of all of k has no order.
  gptq["group_size"] = -1;
  EXPECT_EQ(weightsOf(gptq), "int4_w4a16 -1 gptq");
  gptq["bits"] = 8;
  EXPECT_EQ(weightsOf(gptq), "int8_w8a16 -1 gptq");
  EXPECT_EQ(weightsOf({{"quant_method", "awq"},
                       {"bits", 4},
                       {"group_size", 128},
                       {"zero_point", true}}),
            "int4_zp_w4a16 128 awq");
  nlohmann::json packed = compressed({{"strategy", "group"}}, {});
  packed["format"] = "pack-quantized";
  nlohmann::json &group = packed["config_groups"]["group_0"];
  group["input_activations"] = nullptr;
  group["weights"] = {{"type", "int"},
                      {"num_bits", 4},
                      {"strategy", "group"},
                      {"group_size", 32},
                      {"symmetric", false}};
  EXPECT_EQ(weightsOf(packed), "int4_zp_w4a16 32 pack_quantized");
  for (const auto &[order, isIndexed] :
       {std::pair<nlohmann::json, bool>("group", true),
        {"dynamic", true},
        {true, true},
        {"weight", false},
        {"static", false},
        {false, false}}) {
    group["weights"]["actorder"] = order;
    EXPECT_EQ(weightsOf(packed),
              std::string("int4_zp_w4a16 32 pack_quantized") +
                  (isIndexed ? " index" : ""))
        << order;
  }
  group["weights"].erase("actorder");
  group["weights"]["group_size"] = 128;
  group["weights"].erase("symmetric");
  group["input_activations"] = {{"type", "int"},
                                {"num_bits", 8},
                                {"strategy", "token"},
                                {"dynamic", true}};
  EXPECT_EQ(schemeOf(packed), "int4_w4aint8");
  group["input_activations"]["type"] = "float";
  EXPECT_EQ(schemeOf(packed), "int4_w4afp8");
  group["weights"]["group_size"] = 64;
  EXPECT_EQ(weightsOf(packed), "int4_w4afp8 64 pack_quantized");
  group["weights"]["strategy"] = "channel";
  group["weights"].erase("group_size");
  EXPECT_EQ(weightsOf(packed), "int4_w4afp8 -1 pack_quantized");
  group["input_activations"] = nullptr;
  group["weights"] = {
      {"type", "int"}, {"num_bits", 4}, {"strategy", "channel"}};
  EXPECT_EQ(weightsOf(packed), "int4_w4a16 -1 pack_quantized");
  packed["format"] = "nvfp4-pack-quantized";
  group["weights"] = {{"type", "float"},
                      {"num_bits", 4},
                      {"strategy", "tensor_group"},
                      {"group_size", 16}};
  EXPECT_EQ(weightsOf(packed), "nvfp4_w4a16 0");
  packed["format"] = "float-quantized";
  group["weights"] = {
      {"type", "float"}, {"num_bits", 8}, {"strategy", "channel"}};
  EXPECT_EQ(weightsOf(packed), "fp8_w8a16 0");
  EXPECT_EQ(weightsOf({{"quant_method", "mxfp4"}}), "mxfp4_w4a16 0");
}

TEST(HuggingFace, QuantizationThatIsNoSchemeIsRefused) {
  auto refused = [](nlohmann::json quantization) {
    return refusalOf(
        changed("qwen3-30b-a3b", {{"quantization_config", quantization}}));
  };
  const std::vector<std::string_view> all = schemeNames();
  const std::string names = listOf(all, "and", false);
  const std::string schemes =
      "another scheme of the expert weights is named with --scheme= (known: " +
      names + ")";
  EXPECT_EQ(refused({{"quant_method", "quip"}}),
            "in.json: $.quantization_config.quant_method: no importer for "
            "quant_method \"quip\"; known: awq, compressed-tensors, fp8, "
            "gptq, modelopt, mxfp4, mxfp8 and quark; " +
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
                     {"ignored_layers", {"model.layers.3.mlp.experts.0"}}}),
            "in.json: $.quantization_config.ignored_layers: the string "
            "\"model.layers.3.mlp.experts.0\" names experts, whose layers "
            "would differ from the others; " +
                schemes);
  EXPECT_EQ(refused(compressed({{"strategy", "channel"}},
                               {{"strategy", "tensor"}, {"dynamic", true}})),
            "in.json: $.quantization_config.config_groups: no scheme of format "
            "\"float-quantized\" has weights of \"float8 channel\" with "
            "activations of \"float8 tensor dynamic\"; accepted: float8 "
            "channel with float8 token dynamic, float8 tensor with float8 "
            "tensor, float8 tensor with float8 tensor dynamic, float8 block "
            "with float8 group 128 dynamic, float8 channel with no "
            "activations; " +
                schemes);
  // Shared experts may differ, if they are no part of the layer.
  const std::string shared = changed(
      "deepseek-v3", {{"quantization_config",
                       {{"ignored_layers", {"re:.*shared_experts.*"}}}}});
  EXPECT_EQ(refusalOf(shared),
            "in.json: $.quantization_config: leaves shared experts as they "
            "are, so that they cannot be rows of the routed ones; accepted: "
            "--no-shared-experts");
  ImportOptions apart;
  apart.noSharedExperts = true;
  EXPECT_EQ(refusalOf(shared, apart), "");
  // A named scheme settles it.
  ImportOptions options;
  options.scheme = "bf16";
  EXPECT_EQ(refusalOf(changed("qwen3-30b-a3b", {{"quantization_config",
                                                 {{"quant_method", "quip"}}}}),
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

TEST(HuggingFace, PlacementAndTransport) {
  ImportOptions options;
  options.tp = 2, options.dp = 2, options.sp = 2;
  options.ep = true;
  options.placement = "round_robin";
  options.allToAll = "nixl_ep";
  LayerDescription layer = accepted(modelText("qwen3-30b-a3b"), options);
  EXPECT_EQ(layer.parallel.sp, 2);
  EXPECT_EQ(layer.parallel.placement, "round_robin");
  EXPECT_EQ(layer.parallel.allToAll, "nixl_ep");
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
  options.tp = 4;
  options.sp = 2;
  EXPECT_EQ(refusalOf(text, options),
            "in.json: --sp=2: expected 1 or the ranks of tp, 4");
  options = {};
  options.placement = "scattered";
  EXPECT_EQ(refusalOf(text, options),
            "in.json: --placement=scattered: expected linear or round_robin");
  options = {};
  options.scheme = "fp4";
  EXPECT_EQ(refusalOf(text, options),
            "in.json: --scheme=fp4: expected one of " +
                catalog::names(catalog::kSchemes));
  options = {};
  options.dtype = "fp8";
  EXPECT_EQ(refusalOf(text, options),
            "in.json: --dtype=fp8: expected bf16, f16 or f32");
}

} // namespace
