//===- QuantizationTest.cpp - quantization_config of a config.json --------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each format becomes its scheme, and all else that it may say is refused.
//
//===----------------------------------------------------------------------===//

#include "compiler/import/ModuleNames.h"
#include "test/import/QuantizationTesting.h"

using namespace moec;
using namespace moec::compiler;
using namespace moec::compiler::testing;

namespace {

//===----------------------------------------------------------------------===//
// fp8
//===----------------------------------------------------------------------===//

const json kFp8 = {{"quant_method", "fp8"},
                   {"fmt", "e4m3"},
                   {"activation_scheme", "dynamic"},
                   {"modules_to_not_convert", {"model.layers.0.mlp.gate"}},
                   {"weight_block_size", {128, 128}}};

TEST(Quantization, Fp8) {
  EXPECT_EQ(read(kFp8), "fp8_block");
  // The default of FineGrainedFP8Config.
  EXPECT_EQ(read(without(kFp8, "activation_scheme")), "fp8_block");
  EXPECT_EQ(read(with(kFp8, {{"scale_fmt", "ue8m0"}})), "fp8_block_ue8m0");
  EXPECT_EQ(read(with(kFp8, {{"dequantize", false}})), "fp8_block");
  EXPECT_EQ(read(with(kFp8, {{"expert_dtype", "fp4"}})), "mxfp4_w4a16");
  const json ofTensor = with(kFp8, {{"weight_block_size", nullptr}});
  // merge_patch of a config would drop the null.
  const auto readPlain = [](const json &quantization) {
    json config = json::parse(modelText("qwen3-30b-a3b"));
    config["quantization_config"] = quantization;
    Result<LayerDescription> layer =
        readDescription(config.dump(), "in.json", {});
    return layer ? layer->quant.scheme : layer.error().message;
  };
  EXPECT_EQ(readPlain(ofTensor), "fp8_tensor_dynamic");
  EXPECT_EQ(readPlain(with(ofTensor, {{"activation_scheme", "static"}})),
            "fp8_tensor");
  // Scales of powers of two are of blocks.
  EXPECT_EQ(readPlain(with(ofTensor, {{"scale_fmt", "ue8m0"}})),
            kPath + "scale_fmt: expected \"float\" without weight_block_size, "
                    "got the string \"ue8m0\"");
  const json ling = with(kFp8, {{"routed_experts_quant_method", "mxfp4"}});
  EXPECT_EQ(read(ling), "mxfp4_w4a16");
  EXPECT_EQ(read(with(ling, {{"routed_experts_quant_method", "int4"}})),
            kPath + "routed_experts_quant_method: expected \"mxfp4\", got the "
                    "string \"int4\"");
  EXPECT_EQ(read(with(ling, {{"routed_experts_quant_method", nullptr}})),
            read(kFp8));
  // Experts in fp4 have scales of their own.
  EXPECT_EQ(readPlain(with(ofTensor,
                           {{"scale_fmt", "ue8m0"}, {"expert_dtype", "fp4"}})),
            "mxfp4_w4a16");
}

TEST(Quantization, Fp8ThatNoSchemeHas) {
  EXPECT_EQ(read(with(kFp8, {{"weight_block_size", {64, 64}}})),
            "f8E4M3FN [1, 64] f32 dynamic x f8E4M3FN [64, 64] f32");
  EXPECT_EQ(read(with(kFp8, {{"weight_block_size", {1, 32}},
                             {"scale_fmt", "ue8m0"}})),
            "mxfp8");
  EXPECT_EQ(read(with(kFp8, {{"activation_scheme", "static"}})),
            "f8E4M3FN [-1, -1] f32 x f8E4M3FN [128, 128] f32");
}

TEST(Quantization, Fp8IsRefused) {
  // Transformers and vLLM read an absent key in two ways.
  EXPECT_EQ(read({{"quant_method", "fp8"}}),
            kPath +
                "weight_block_size: expected rows and columns that share "
                "a scale, such as [128, 128], or null for one scale a weight, "
                "got nothing");
  EXPECT_EQ(read(with(kFp8, {{"weight_block_size", {128}}})),
            kPath + "weight_block_size: expected two integers, rows and "
                    "columns that share a scale, got an array");
  EXPECT_EQ(read(with(kFp8, {{"dequantize", true}})),
            kPath + "dequantize: expected false, got true; " + schemes());
  EXPECT_EQ(read(with(kFp8, {{"fmt", "e5m2"}})),
            kPath + "fmt: expected \"e4m3\" or \"float8_e4m3fn\", got the "
                    "string \"e5m2\"");
}

//===----------------------------------------------------------------------===//
// GPTQ and AWQ
//===----------------------------------------------------------------------===//

const json kGptq = {
    {"quant_method", "gptq"}, {"bits", 4},   {"group_size", 64},
    {"desc_act", false},      {"sym", true}, {"lm_head", false}};

TEST(Quantization, Gptq) {
  EXPECT_EQ(read(kGptq), "int4_w4a16 64 gptq");
  EXPECT_EQ(read(without(kGptq, "sym")), "int4_w4a16 64 gptq");
  EXPECT_EQ(
      read(with(kGptq, {{"checkpoint_format", "gptq_v2"}, {"sym", false}})),
      "int4_zp_w4a16 64 gptq_v2");
  EXPECT_EQ(read(with(kGptq, {{"format", "gptq_v2"}})),
            "int4_w4a16 64 gptq_v2");
  EXPECT_EQ(read(with(kGptq, {{"group_size", -1}})), "int4_w4a16 -1 gptq");
  // Rows of k are in groups that g_idx says; one group of all has no order.
  const json ordered = with(kGptq, {{"desc_act", true}});
  EXPECT_EQ(read(ordered), "int4_w4a16 64 gptq index");
  EXPECT_EQ(read(with(ordered, {{"group_size", -1}})), "int4_w4a16 -1 gptq");
  EXPECT_EQ(read(without(with(kGptq, {{"group_size", -1}}), "desc_act")),
            "int4_w4a16 -1 gptq");
  EXPECT_EQ(read(with(kGptq, {{"bits", 8}, {"group_size", -1}})),
            "int8_w8a16 -1 gptq");
  // These rules say nothing about experts.
  EXPECT_EQ(read(with(kGptq, {{"dynamic",
                               {{"-:.*self_attn.*", json::object()},
                                {R"(-:.*\.mlp\.gate$)", json::object()}}},
                              {"pack_dtype", "int32"},
                              {"meta", {{"quantizer", {"gptqmodel:5.0"}}}},
                              {"damp_percent", 0.05},
                              {"rotation", nullptr}})),
            "int4_w4a16 64 gptq");
  EXPECT_EQ(read(with(kGptq, {{"bits", 8}, {"sym", false}})),
            "int8_zp_w8a16 64 gptq");
  json blocks = {{"self_attn.q_proj"}};
  for (int e = 0; e < 128; ++e) {
    const std::string expert = "mlp.experts." + std::to_string(e);
    blocks.push_back({expert + ".gate_proj", expert + ".up_proj"});
    blocks.push_back({expert + ".down_proj"});
  }
  EXPECT_EQ(read(with(kGptq, {{"modules_in_block_to_quantize", blocks}})),
            "int4_w4a16 64 gptq");
}

TEST(Quantization, GptqIsRefused) {
  for (int bits : {2, 3, 5, 6, 7})
    EXPECT_EQ(read(with(kGptq, {{"bits", bits}})),
              kPath + "bits: expected 4 or 8, got the number " +
                  std::to_string(bits));
  EXPECT_EQ(read(without(kGptq, "bits")),
            kPath + "bits: expected an integer from 1 to 64, got nothing");
  EXPECT_EQ(read(with(kGptq, {{"group_size", 0}})),
            kPath + "group_size: expected -1 (all of K) or at least 1, got the "
                    "number 0");
  EXPECT_EQ(read(without(kGptq, "desc_act")),
            kPath + "desc_act: expected true or false, got nothing");
  EXPECT_EQ(read(with(kGptq, {{"checkpoint_format", "marlin"}})),
            kPath + "checkpoint_format: expected \"gptq\" or \"gptq_v2\", got "
                    "the string \"marlin\"");
  EXPECT_EQ(
      read(with(kGptq, {{"format", "gptq"}, {"checkpoint_format", "gptq_v2"}})),
      kPath + "checkpoint_format: expected the value of format, \"gptq\", got "
              "the string \"gptq_v2\"");
  EXPECT_EQ(read(with(kGptq, {{"pack_dtype", "int64"}})),
            kPath + "pack_dtype: expected \"int32\" or \"torch.int32\", got "
                    "the string \"int64\"");
  EXPECT_EQ(read(with(kGptq, {{"is_marlin_format", true}})),
            kPath + "is_marlin_format: expected false, got true; " + schemes());
  EXPECT_EQ(read(with(kGptq, {{"act_bits", 8}})),
            kPath + "act_bits: expected 16, got the number 8");
  for (const char *key : {"adapter", "rotation"})
    EXPECT_EQ(read(with(kGptq, {{key, "yes"}})),
              kPath + key + ": expected null, got the string \"yes\"; " +
                  schemes());
  for (const char *other : {"self_attn.q_proj", "mlp.experts.0"})
    EXPECT_EQ(read(with(kGptq, {{"modules_in_block_to_quantize", {{other}}}})),
              kPath +
                  "modules_in_block_to_quantize: does not name gate, up and "
                  "down of the experts, which are not quantized then; " +
                  schemes());
  EXPECT_EQ(read(with(kGptq, {{"modules_in_block_to_quantize", "all"}})),
            kPath + "modules_in_block_to_quantize: expected lists of module "
                    "names, got the string \"all\"");
}

/// A named scheme fits the checkpoint that the config is of.
TEST(Quantization, SchemesOfStoredWords) {
  ImportOptions options;
  options.scheme = "int4_w4a16";
  EXPECT_EQ(read(kGptq, options), read(kGptq));
  EXPECT_EQ(read(with(kGptq, {{"checkpoint_format", "gptq_v2"},
                              {"desc_act", true},
                              {"is_marlin_format", true}}),
                 options),
            "int4_w4a16 64 gptq_v2 index");
  // One group has no order of columns.
  EXPECT_EQ(
      read(with(kGptq, {{"group_size", -1}, {"desc_act", true}}), options),
      "int4_w4a16 -1 gptq");
  EXPECT_EQ(read({{"quant_method", "compressed-tensors"},
                  {"format", "pack-quantized"}},
                 options),
            "int4_w4a16 pack_quantized");
  options.scheme = "int4_zp_w4a16";
  EXPECT_EQ(read({{"quant_method", "awq"}, {"group_size", 32}}, options),
            "int4_zp_w4a16 32 awq");
  for (const char *other : {"bf16", "fp8_block", "int8_channel"}) {
    options.scheme = other;
    EXPECT_EQ(read(kGptq, options), other);
  }
  options.scheme = "int4_w4a16";
  options.weightsDtype = "bf16";
  EXPECT_EQ(read(kGptq, options), "int4_w4a16");
}

TEST(Quantization, GptqRules) {
  const auto ruled = [](const json &rules, const ImportOptions &options = {}) {
    return read(with(kGptq, {{"dynamic", rules}}), options);
  };
  const json eight = {{"bits", 8}, {"group_size", 64}};
  ImportOptions third;
  third.layer = 3;
  // Rules for other layers, and for this one's experts.
  const json some = {{R"(+:model\.layers\.(1|2|3)\..*experts.*)", eight}};
  EXPECT_EQ(ruled(some), read(kGptq));
  EXPECT_EQ(ruled(some, third), "int8_w8a16 64 gptq");
  EXPECT_EQ(ruled({{R"(.*\.layers\.[0-9]\..*)", eight}}), "int8_w8a16 64 gptq");
  EXPECT_EQ(ruled({{R"(.*experts.*)", {{"bits", 4}}}}), read(kGptq));
  const std::string plain =
      "in.json: $.quantization_config: leaves all experts of layer 0 as they "
      "are; accepted: --scheme=bf16, or --layer of another layer";
  EXPECT_EQ(ruled({{R"(-:.*\.experts\..*)", json::object()}}), plain);
  EXPECT_EQ(ruled({{R"(+:.*experts.*)", {{"bits", 3}}}}),
            kPath + "bits: expected 4 or 8, got the number 3");
  EXPECT_EQ(ruled({{R"(+:.*experts.*)", {{"bits", 8}, {"rotation", "x"}}}}),
            kPath + "rotation: expected null, got the string \"x\"; " +
                schemes());
  const std::string others =
      ": quantizes some routed experts of layer 0 in another way than others, "
      "or is one of two rules for them; expected one rule for all of them";
  for (const char *rule : {".*down_proj.*", R"(.*experts\.(?:1[0-5])\..*)"})
    EXPECT_EQ(ruled({{rule, eight}}), kPath + "dynamic." + rule + others);
  EXPECT_EQ(ruled({{".*mlp.*", eight}, {".*experts.*", {{"bits", 8}}}}),
            kPath + "dynamic..*mlp.*" + others);
  // The one that keeps the experts as they are counts, too.
  EXPECT_EQ(ruled({{"-:.*experts.*", json::object()}, {".*experts.*", eight}}),
            kPath + "dynamic..*experts.*" + others + "\n" + plain);
  EXPECT_EQ(
      ruled({{"+:.*experts.*", eight}, {"-:.*experts.*", json::object()}}),
      kPath + "dynamic.-:.*experts.*" + others);
  // So does one that repeats the numbers of all modules.
  const json four = {{"bits", 4}};
  EXPECT_EQ(ruled({{"+:.*experts.*", four}, {".*mlp.*", eight}}),
            kPath + "dynamic..*mlp.*" + others);
  EXPECT_EQ(ruled({{".*experts.*", eight}, {".*mlp.*", four}}),
            kPath + "dynamic..*mlp.*" + others);
  EXPECT_EQ(ruled({{"+:.*down_proj.*", four}, {".*experts.*", eight}}),
            kPath + "dynamic..*experts.*" + others);
  EXPECT_EQ(ruled({{"+:.*experts.*", four}, {"-:.*mlp.*", json::object()}}),
            kPath + "dynamic.-:.*mlp.*" + others);
  // Rules for other modules are no rules for the experts, wherever they are.
  for (const char *rule : {"+:.*self_attn.*", ".*self_attn.*"}) {
    EXPECT_EQ(ruled({{rule, four}, {"+:.*experts.*", eight}}),
              "int8_w8a16 64 gptq");
    EXPECT_EQ(ruled({{rule, eight}}), read(kGptq));
  }
  EXPECT_EQ(
      ruled({{"-:.*self_attn.*", json::object()}, {".*experts.*", eight}}),
      "int8_w8a16 64 gptq");
  EXPECT_EQ(ruled({{".*(?=x).*", eight}}),
            kPath + "dynamic..*(?=x).*: cannot be compared with names of "
                    "experts; if it names no routed experts of layer 0, pass "
                    "--ignore-field=dynamic");
  ImportOptions ignoring;
  ignoring.ignoreFields = {"dynamic"};
  EXPECT_EQ(ruled({{".*(?=x).*", eight}}, ignoring), read(kGptq));
}

const json kAwq = {{"quant_method", "awq"},
                   {"bits", 4},
                   {"group_size", 64},
                   {"zero_point", true},
                   {"version", "gemm"}};

TEST(Quantization, Awq) {
  EXPECT_EQ(read(kAwq), "int4_zp_w4a16 64 awq");
  EXPECT_EQ(read(with(kAwq, {{"version", "GEMM"}, {"zero_point", false}})),
            "int4_w4a16 64 awq");
  // The defaults of AwqConfig.
  EXPECT_EQ(read({{"quant_method", "awq"}}), "int4_zp_w4a16 128 awq");
  // AutoAWQ's own words; and what Transformers writes beside.
  EXPECT_EQ(read({{"quant_method", "awq"}, {"w_bit", 4}, {"q_group_size", 32}}),
            "int4_zp_w4a16 32 awq");
  EXPECT_EQ(read(with(kAwq, {{"sym", true},
                             {"desc_act", false},
                             {"backend", "auto"},
                             {"modules_to_not_convert", {"gate"}}})),
            "int4_zp_w4a16 64 awq");
}

TEST(Quantization, AwqIsRefused) {
  for (const char *version : {"gemv", "gemv_fast", "llm-awq", "marlin"})
    EXPECT_EQ(read(with(kAwq, {{"version", version}})),
              kPath +
                  "version: expected \"gemm\", whose order of weights is "
                  "stored_layout \"awq\", got the string \"" +
                  version + "\"");
  EXPECT_EQ(read(with(without(kAwq, "version"), {{"format", "gemv"}})),
            kPath + "format: expected \"gemm\", whose order of weights is "
                    "stored_layout \"awq\", got the string \"gemv\"");
  EXPECT_EQ(read(with(kAwq, {{"backend", "llm-awq"}})),
            kPath + "backend: expected one whose weights are stored as AutoAWQ "
                    "stores them, got the string \"llm-awq\"");
  for (int bits : {3, 5, 6, 7, 8})
    EXPECT_EQ(read(with(kAwq, {{"bits", bits}})),
              kPath + "bits: expected 4, got the number " +
                  std::to_string(bits));
  EXPECT_EQ(read(with(kAwq, {{"w_bit", 4}})),
            kPath + "w_bit: expected either bits or w_bit, got both");
  EXPECT_EQ(read(with(kAwq, {{"group_size", 0}})),
            kPath + "group_size: expected -1 (all of K) or at least 1, got the "
                    "number 0");
  EXPECT_EQ(read(with(kAwq, {{"desc_act", true}})),
            kPath +
                "desc_act: expected false: AWQ has no order of groups, got "
                "true; " +
                schemes());
}

//===----------------------------------------------------------------------===//
// Others
//===----------------------------------------------------------------------===//

static const json kNvfp4 = {{"quant_method", "modelopt"},
                            {"quant_algo", "NVFP4"},
                            {"group_size", 16},
                            {"kv_cache_scheme", {{"num_bits", 8}}},
                            {"producer", {{"name", "modelopt"}}},
                            {"ignore", {"lm_head", "model.layers.61*"}}};

static const std::string kAlgorithms =
    "\"FP8\", \"FP8_PER_CHANNEL_PER_TOKEN\", \"FP8_PB_WO\", "
    "\"FP8_BLOCK_SCALES\", \"NVFP4\", \"W4A16_NVFP4\", "
    "\"W4A8_NVFP4_FP8\", \"MXFP8\", \"MXFP4\", \"W4A16_MXFP4\", "
    "\"W4A8_MXFP4_FP8\", \"W4A8_MXFP4_MXFP8\" or \"MIXED_PRECISION\"";

TEST(Quantization, ModelOpt) {
  EXPECT_EQ(read(kNvfp4), "nvfp4");
  EXPECT_EQ(read(with(without(kNvfp4, "group_size"),
                      {{"quant_algo", "w4a16_nvfp4"}})),
            "nvfp4_w4a16");
  EXPECT_EQ(read({{"quant_method", "modelopt"},
                  {"quantization", {{"quant_algo", "FP8"}}}}),
            "fp8_tensor");
  EXPECT_EQ(read({{"quant_method", "modelopt"},
                  {"quantization", {{"quant_algo", "FP8"}, {"bits", 4}}}}),
            kPath + "quantization.bits: moec supports no such key, and its "
                    "name suggests that it may change the experts' weights; if "
                    "it does not, pass --ignore-field=bits");
  EXPECT_EQ(read(with(kNvfp4, {{"quant_algo", "INT8_SQ"}})),
            kPath + "quant_algo: expected " + kAlgorithms +
                ", got the string \"INT8_SQ\"");
}

TEST(Quantization, ModelOptWithVectors) {
  const json awq = with(kNvfp4, {{"quant_algo", "NVFP4_AWQ"},
                                 {"has_zero_point", false},
                                 {"pre_quant_scale", true}});
  const std::string vector =
      kPath +
      "quant_algo: NVFP4_AWQ multiplies x by a vector "
      "(pre_quant_scale), which is no part of a layer; accepted: "
      "pre_quant_scale false; --scheme=nvfp4 if no expert has a tensor "
      "of that name, else the loader refuses it; " +
      kAlgorithms;
  EXPECT_EQ(read(awq), vector);
  EXPECT_EQ(read(without(awq, "pre_quant_scale")), vector);
  EXPECT_EQ(read(with(awq, {{"pre_quant_scale", nullptr}})), vector);
  EXPECT_EQ(read(with(awq, {{"pre_quant_scale", false}})), "nvfp4");
  ImportOptions named;
  named.scheme = "nvfp4";
  EXPECT_EQ(read(awq, named), "nvfp4");
  for (const char *name : {"W4A16_AWQ", "W4A8_AWQ", "w4a8_awq"})
    for (const bool flag : {false, true})
      EXPECT_NE(read(with(awq, {{"quant_algo", name},
                                {"group_size", 128},
                                {"pre_quant_scale", flag}}))
                    .find("_AWQ multiplies x by a vector (pre_quant_scale), "
                          "and a byte holds codes of two rows; a layer has "
                          "neither; accepted: " +
                          kAlgorithms),
                std::string::npos)
          << name;
  EXPECT_EQ(read(with(awq, {{"quant_algo", "NVFP4_SVD"}})),
            kPath +
                "quant_algo: NVFP4_SVD multiplies x by a vector "
                "(pre_quant_scale) and adds a product of two narrow "
                "matrices (svdquant_lora_a and svdquant_lora_b); a layer "
                "has neither; accepted: " +
                kAlgorithms);
  // An entry of mixed precision.
  EXPECT_NE(read({{"quant_method", "modelopt"},
                  {"quant_algo", "MIXED_PRECISION"},
                  {"quantized_layers",
                   {{"model.layers.*.mlp.experts*",
                     {{"quant_algo", "NVFP4_AWQ"},
                      {"group_size", 16},
                      {"pre_quant_scale", true}}}}}})
                .find("quant_algo: NVFP4_AWQ multiplies x"),
            std::string::npos);
}

TEST(Quantization, ModelOptAlgorithms) {
  const auto algorithm = [](const char *name, const json &more = {}) {
    return read(with({{"quant_method", "modelopt"}, {"quant_algo", name}},
                     more.is_null() ? json::object() : more));
  };
  EXPECT_EQ(algorithm("FP8_PB_WO"), "bf16 x f8E4M3FN [128, 128] f32");
  EXPECT_EQ(algorithm("fp8_block_scales", {{"group_size", 128}}), "fp8_block");
  for (const json &block : {json({64, 64}), json({128, 64}), json({64, 128})})
    EXPECT_EQ(algorithm("FP8_BLOCK_SCALES", {{"weight_block_size", block}}),
              kPath + "weight_block_size: expected [128, 128] with "
                      "FP8_BLOCK_SCALES, got an array")
        << block;
  EXPECT_EQ(algorithm("W4A16_MXFP4"), "mxfp4_w4a16");
  EXPECT_EQ(algorithm("W4A8_MXFP4_FP8"), "mxfp4_fp8");
  EXPECT_EQ(algorithm("W4A8_MXFP4_MXFP8", {{"group_size", 32}}), "mxfp4_mxfp8");
  EXPECT_EQ(algorithm("MXFP4"), "mxfp4");
  EXPECT_EQ(read(with(kNvfp4, {{"group_size", 32}})),
            kPath + "group_size: expected 16 with NVFP4, got the number 32");
  EXPECT_EQ(read(with(kNvfp4, {{"quant_algo", "FP8"}})),
            kPath + "group_size: expected none with FP8, got the number 16");
  EXPECT_EQ(read(with(kNvfp4, {{"pre_quant_scale", true}})),
            kPath + "pre_quant_scale: expected false, got true; " + schemes());
  EXPECT_EQ(read(with(kNvfp4, {{"config_groups",
                                {{"group_0", json::object()},
                                 {"group_1", json::object()}}}})),
            kPath + "config_groups: expected one group, got 2; " + schemes());
}

TEST(Quantization, MxAndUnknown) {
  EXPECT_EQ(read({{"quant_method", "mxfp4"}}), "mxfp4_w4a16");
  const json mxfp8 = {{"quant_method", "mxfp8"},
                      {"scale_fmt", "ue8m0"},
                      {"weight_block_size", {1, 32}}};
  EXPECT_EQ(read(mxfp8), "mxfp8");
  EXPECT_EQ(read(with(mxfp8, {{"weight_block_size", {1, 64}}})),
            kPath + "weight_block_size: expected [1, 32], got an array");
  EXPECT_EQ(read(with(mxfp8, {{"scale_fmt", "float"}})),
            kPath + "scale_fmt: expected \"ue8m0\", got the string \"float\"");
  EXPECT_EQ(read(with(mxfp8, {{"activation_scheme", "static"}})),
            kPath + "activation_scheme: expected \"dynamic\", got the string "
                    "\"static\"");
  EXPECT_EQ(read({{"quant_method", "quip"}}),
            kPath +
                "quant_method: no importer for quant_method \"quip\"; "
                "known: awq, compressed-tensors, fp8, gptq, modelopt, "
                "mxfp4, mxfp8 and quark; " +
                schemes());
  // A named scheme settles it.
  ImportOptions options;
  options.scheme = "bf16";
  EXPECT_EQ(read({{"quant_method", "quip"}}, options), "bf16");
}

/// An algorithm for each module of a list.
TEST(Quantization, MixedPrecision) {
  const json nvfp4 = {{"quant_algo", "NVFP4"}, {"group_size", 16}},
             fp8 = {{"quant_algo", "FP8"}};
  const auto mixed = [](const json &layers, std::optional<int64_t> layer = {}) {
    ImportOptions options;
    options.layer = layer;
    return read({{"quant_method", "modelopt"},
                 {"quant_algo", "MIXED_PRECISION"},
                 {"quantized_layers", layers}},
                options);
  };
  json each = json::object();
  for (int e = 0; e < 128; ++e)
    for (const char *part : {"gate_proj", "up_proj", "down_proj"})
      each["model.layers.0.mlp.experts." + std::to_string(e) + "." + part] =
          nvfp4;
  each["model.layers.0.self_attn.q_proj"] = fp8;
  each["mtp.layers.0.mlp.experts.0.up_proj"] = fp8;
  EXPECT_EQ(mixed(each), "nvfp4");
  const json layers = {{"model.layers.0.mlp.experts", nvfp4},
                       {"model.layers.7.mlp.experts*", fp8},
                       {"model.layers.9.mlp.experts", {{"quant_algo", "X"}}}};
  EXPECT_EQ(mixed(layers), "nvfp4");
  EXPECT_EQ(mixed(layers, 7), "fp8_tensor");
  EXPECT_EQ(mixed(layers, 8),
            "in.json: $.quantization_config: leaves all experts of layer 8 as "
            "they are; accepted: --scheme=bf16, or --layer of another layer");
  EXPECT_TRUE(mixed(layers, 9).starts_with(
      kPath + "quantized_layers.model.layers.9.mlp.experts.quant_algo: "
              "expected \"FP8\", "));
  each["model.layers.0.mlp.experts.5.up_proj"] = fp8;
  EXPECT_EQ(mixed(each),
            kPath + "quantized_layers.model.layers.0.mlp.experts.5.up_proj: "
                    "quantizes some routed experts of layer 0 in another way "
                    "than model.layers.0.mlp.experts.5.gate_proj does; "
                    "expected one algorithm for all of them");
  each.erase("model.layers.0.mlp.experts.5.up_proj");
  EXPECT_EQ(mixed(each),
            kPath + "quantized_layers.model.layers.0.mlp.experts.99.up_proj: "
                    "names some routed experts of layer 0, or parts of them; "
                    "expected all of them, or none");
  EXPECT_EQ(mixed({{"model.layers.0.mlp.experts.x", fp8}}),
            kPath + "quantized_layers.model.layers.0.mlp.experts.x: cannot be "
                    "compared with names of experts");
  EXPECT_EQ(mixed(nullptr),
            kPath + "quantized_layers: expected an object with the algorithm "
                    "of each module, got nothing");
  json many = json::object();
  for (int i = 0; i < 1025; ++i)
    many["*norm" + std::to_string(i)] = fp8;
  EXPECT_EQ(mixed(many),
            kPath + "quantized_layers: expected at most 1024 patterns");
}

TEST(Quantization, ModulesThatStayAsTheyAre) {
  const auto keeps = [](const json &names) {
    return read(with(kFp8, {{"modules_to_not_convert", names}}));
  };
  EXPECT_EQ(keeps({"lm_head", "gate", "model.layers.0.input_layernorm",
                   "re:.*self_attn.*", "model.layers.*.mlp.router",
                   "re:.*mlp\\.(gate|up|gate_up|down)_proj.*", "re:.*mlp.gate$",
                   "model.layers.47.mlp.gate",
                   "model.layers.0.mlp.shared_expert_gate"}),
            "fp8_block");
  // Names of all experts, one by one or together: --scheme serves the layer.
  const std::string plain =
      "in.json: $.quantization_config: leaves all experts of layer 0 as they "
      "are; accepted: --scheme=bf16, or --layer of another layer";
  json each = json::array();
  for (int e = 0; e < 128; ++e)
    for (const char *part : {"gate_proj", "up_proj", "down_proj"})
      each.push_back("model.layers.0.mlp.experts." + std::to_string(e) + "." +
                     part);
  for (const json &names :
       {json{"mlp"}, json{"experts"}, json{"re:.*mlp.*"}, json{"*mlp*"},
        json{"model.layers.*.mlp"}, json{"Linear"}, json{"model.layers.0"},
        json{"model.layers.0.mlp.experts"}, json{"model.layers.0*"},
        json{"re:.*experts\\.\\d+\\.(gate|up)_proj", "down_proj"}, each})
    EXPECT_EQ(keeps(names), plain) << names;
  ImportOptions bf16;
  bf16.scheme = "bf16";
  EXPECT_EQ(read(with(kFp8, {{"modules_to_not_convert", each}}), bf16), "bf16");
  // Some of them, or parts.
  for (const char *name :
       {"model.layers.0.mlp.experts.0", "down_proj", "re:.*gate_proj",
        "re:model\\.layers\\.[0-3]\\.mlp\\.experts\\.(1|12)\\..*",
        "mlp.experts.3", "*.experts.1?.up_proj"})
    EXPECT_EQ(keeps({"lm_head", name}),
              kPath + "modules_to_not_convert: the string \"" + name +
                  "\" names some routed experts of layer 0, or parts of "
                  "them, which would differ from the others; accepted: names "
                  "of all of them, or of none");
  each.erase(each.begin());
  EXPECT_NE(keeps(each), plain);
  EXPECT_NE(keeps(each), "fp8_block");
  // Other layers, draft layers and other models have no effect.
  for (const json &names :
       {json{"model.layers.48*", "model.layers.5"},
        json{"model.layers.3.mlp.experts.0", "model.layers.48.mlp.experts"},
        json{"mtp.layers.0.mlp.experts.0.gate_proj", "re:.*mtp.*experts.*"},
        json{"model.layers.1*", "re:model\\.layers\\.(1|2)\\..*experts.*"},
        json{"vision_tower.layers.0.mlp.experts", "re:.*layers\\.4\\d\\..*"},
        json{"model.layers.10.mlp.experts.0.gate_proj.weight"}})
    EXPECT_EQ(keeps(names), "fp8_block") << names;
  // Whatever may mean experts and is not understood is named.
  for (const char *name :
       {"re:.*\\.experts(?!x)", "re:(?!lm_head).*",
        "model.layers.0.mlp.experts.0.blue_proj",
        "model.layers.0.mlp.experts_of_ours", "*.xexperts.*"})
    EXPECT_EQ(keeps({name}),
              kPath + "modules_to_not_convert: the string \"" + name +
                  "\" cannot be compared with names of experts; if it names "
                  "no routed experts of layer 0, pass "
                  "--ignore-field=modules_to_not_convert");
  ImportOptions ignoring;
  ignoring.ignoreFields = {"modules_to_not_convert"};
  EXPECT_EQ(read(with(kFp8, {{"modules_to_not_convert", {"re:(?!lm_head).*"}}}),
                 ignoring),
            "fp8_block");
  EXPECT_EQ(keeps("lm_head"),
            kPath + "modules_to_not_convert: expected an array of module "
                    "names, got the string \"lm_head\"");
  EXPECT_EQ(keeps(json(2000, "*norm")),
            kPath + "modules_to_not_convert: expected at most 1024 patterns");
  // Shared experts may differ, if they are no part of the layer.
  ImportOptions apart;
  apart.noSharedExperts = true;
  const std::string name = "re:.*shared_experts.*";
  for (const json &list : {json{name}, json{name, "lm_head"},
                           json{"lm_head", name}, json{"a", name, "b", "c"}}) {
    const json shared = {{"ignored_layers", list}};
    EXPECT_EQ(read(shared, {}, "deepseek-v3"),
              "in.json: $.quantization_config: leaves shared experts as they "
              "are, so that they cannot be rows of the routed ones; accepted: "
              "--no-shared-experts")
        << list;
    EXPECT_EQ(read(shared, apart, "deepseek-v3"), "fp8_block") << list;
  }
  EXPECT_EQ(read({{"ignored_layers", {"lm_head"}}}, {}, "deepseek-v3"),
            "fp8_block");
}

TEST(Quantization, PatternsUpToTheirLimit) {
  json names = json::array();
  for (int i = 0; i < 1024; ++i)
    names.push_back("*.attention_" + std::to_string(i) + "*");
  names.push_back("lm_head"); // no pattern
  EXPECT_EQ(read(with(kFp8, {{"modules_to_not_convert", names}})), "fp8_block");
  names.push_back("re:.*attention.*");
  EXPECT_EQ(read(with(kFp8, {{"modules_to_not_convert", names}})),
            kPath + "modules_to_not_convert: expected at most 1024 patterns");
}

TEST(Quantization, KeysThatNobodyKnows) {
  EXPECT_EQ(read(with(kGptq, {{"hadamard_size", 64}})),
            kPath + "hadamard_size: moec supports no such key, and its name "
                    "suggests that it may change the experts' weights; if it "
                    "does not, pass --ignore-field=hadamard_size");
  ImportOptions ignoring;
  ignoring.ignoreFields = {"hadamard_size"};
  EXPECT_EQ(read(with(kGptq, {{"hadamard_size", 64}}), ignoring),
            "int4_w4a16 64 gptq");
  for (const char *key : {"bits", "group_size", "sym", "quant_method"}) {
    ignoring.ignoreFields = {key};
    const std::string why =
        std::string("in.json: --ignore-field: moec reads '") + key +
        "', so that the quantization of the experts depends on it; accepted: "
        "keys that moec does not read";
    EXPECT_EQ(read(with(kGptq, {{"sym", true}}), ignoring), why);
    if (key == std::string("group_size")) {
      ignoring.scheme = "int4_w4a16";
      EXPECT_EQ(read(kGptq, ignoring), why) << "a scheme has no group size";
      ignoring.scheme.reset();
    }
  }
  for (const json &nothing : {json(false), json(""), json::object()})
    EXPECT_EQ(read(with(kGptq, {{"outlier_groups", nothing}})),
              "int4_w4a16 64 gptq");
  EXPECT_EQ(read(with(kGptq, {{"author", "me"}, {"kv_cache_dtype", "fp8"}})),
            "int4_w4a16 64 gptq");
}

/// The keys of all lines of a refusal.
std::string keysOf(const std::string &message) {
  std::string keys;
  for (size_t at = 0; at < message.size();) {
    const size_t end = std::min(message.find('\n', at), message.size());
    std::string line = message.substr(at, end - at);
    EXPECT_TRUE(line.starts_with(kPath)) << line;
    line.erase(0, kPath.size());
    keys += (keys.empty() ? "" : " ") + line.substr(0, line.find(": "));
    at = end + 1;
  }
  return keys;
}

TEST(Quantization, AllMistakesAreSaidAtOnce) {
  const json stray = {{"hadamard_size", 64}, {"dequantize", true}};
  EXPECT_EQ(keysOf(read(with(without(kFp8, "weight_block_size"),
                             with(stray, {{"fmt", "e5m2"}})))),
            "fmt dequantize weight_block_size hadamard_size");
  EXPECT_EQ(keysOf(read(with(kGptq, {{"bits", 3},
                                     {"group_size", 0},
                                     {"act_bits", 8},
                                     {"hadamard_size", 64}}))),
            "bits group_size act_bits hadamard_size");
  EXPECT_EQ(keysOf(read(with(kAwq, {{"bits", 8},
                                    {"version", "gemv"},
                                    {"backend", "llm-awq"},
                                    {"group_size", 0}}))),
            "version backend bits group_size");
  EXPECT_EQ(keysOf(read({{"quant_method", "modelopt"},
                         {"quant_algo", "FP7"},
                         {"has_zero_point", true},
                         {"hadamard_size", 64}})),
            "quant_algo has_zero_point hadamard_size");
  // No key can be judged of a method that nobody knows.
  EXPECT_EQ(keysOf(read(with(stray, {{"quant_method", "bits"}}))),
            "quant_method");
  const json group = {{"targets", {"Linear"}},
                      {"weights", {{"num_bits", 5}}},
                      {"output_activations", {{"num_bits", 8}}}};
  EXPECT_EQ(keysOf(read(with(stray, {{"quant_method", "compressed-tensors"},
                                     {"format", "packed"},
                                     {"config_groups", {{"one", group}}}}))),
            "dequantize format config_groups.one.weights.num_bits "
            "config_groups.one.output_activations hadamard_size");
  EXPECT_EQ(keysOf(read(with(stray, {{"quant_method", "compressed-tensors"},
                                     {"config_groups",
                                      {{"one", {{"targets", 1}}},
                                       {"two", {{"targets", 2}}}}}}))),
            "dequantize config_groups.one.targets config_groups.two.targets "
            "hadamard_size");
  EXPECT_EQ(keysOf(read({{"quant_method", "quark"},
                         {"hadamard_size", 64},
                         {"global_quant_config",
                          {{"bias", {{"dtype", "int8"}}},
                           {"weight", {{"dtype", "int8"}}}}}})),
            "global_quant_config.bias global_quant_config.weight.qscheme "
            "global_quant_config.weight.symmetric hadamard_size");
}

TEST(Quantization, MeaningOfModules) {
  using P = ExpertParts;
  const LayerModules layer = {3, 48, 12, true};
  const auto means = [&](std::string_view entry, unsigned parts) {
    ModuleMeaning meaning = meaningOfModules(entry, layer);
    ExpertParts rest(layer);
    rest.addAll(P::All & ~parts);
    meaning.routed.add(rest);
    return meaning.understood && meaning.routed.all();
  };
  EXPECT_TRUE(means("model.layers.3.mlp.experts", P::All));
  EXPECT_TRUE(means("w1", P::Gate));
  EXPECT_FALSE(means("w1", P::Gate | P::Up));
  EXPECT_TRUE(means("re:.*experts.*w[13]$", P::Gate | P::Up));
  EXPECT_TRUE(means("re:.*experts.*\\d+\\.w2$", P::Down));
  EXPECT_TRUE(means("re:.*layers\\.3\\..*", P::All));
  EXPECT_TRUE(means("re:.*layers\\.(3|4)\\..*", P::All));
  EXPECT_TRUE(means("re:.*experts\\.[0-9]{1,2}\\.up_proj", P::Up));
  EXPECT_TRUE(means("re:^model\\.layers\\.\\d+\\.mlp\\.experts$", P::All));
  EXPECT_TRUE(means("re:.*?experts.*", P::All));
  // Blocks with and without parts of their own lead to the same state.
  EXPECT_TRUE(means("re:.*layers\\.\\d+\\.[a-z_]+\\.w1$", P::Gate));
  EXPECT_TRUE(means("block_sparse_moe.output_linear", P::Down));
  const auto none = [&](std::string_view entry) {
    const ModuleMeaning meaning = meaningOfModules(entry, layer);
    return meaning.understood && meaning.routed.none();
  };
  for (const char *other :
       {"*shared_experts*", "model.layers.61*", "model.layers.4.mlp.experts.0",
        "re:.*layers\\.(4|5)\\..*experts", "re:.*layers\\.1[0-9]\\..*",
        "model.layers.3.mlp.experts.12", "", "lm_head",
        "model.layers.3.mlp.gate_proj", "re:.*layers\\.4[89]\\..*experts.*"})
    EXPECT_TRUE(none(other)) << other;
  EXPECT_TRUE(meaningOfModules("*shared_experts*", layer).shared);
  EXPECT_FALSE(
      meaningOfModules("model.layers.4.mlp.shared_experts", layer).shared);
  // Without gates the first weight is called either.
  const LayerModules ungated = {3, 48, 12, false};
  ModuleMeaning both = meaningOfModules("down_proj", ungated);
  both.routed.add(meaningOfModules("up_proj", ungated).routed);
  EXPECT_TRUE(both.routed.all());
  for (const char *broken :
       {"re:experts.*", "re:(",
        "re:[",         "re:*",
        "re:a{2",       "re:a{,}",
        "re:a)",        "re:\\",
        "re:(?<x>a)",   "re:[a\\",
        "re:a**",       "re:a{9999}",
        "re:[z-a]",     "re:a{257}",
        "re:a{0,257}",  "re:a{2,1}",
        "re:a+{2}",     "re:a++",
        "re:a?*",       "re:a{2}*",
        "re:\\1",       "re:((((((((((((((((((a))))))))))))))))))"})
    EXPECT_FALSE(meaningOfModules(broken, layer).understood) << broken;
  for (const char *taken : {"re:a{256}", "re:a{0,256}", "re:a{2,2}", "re:a{,3}",
                            "re:a{2,}", "re:a+?", "re:[^\\d]"})
    EXPECT_TRUE(meaningOfModules(taken, layer).understood) << taken;
  EXPECT_TRUE(
      means("re:\\Amodel\\.layers\\.3\\.mlp\\.experts\\..*_proj\\Z", P::All));
  // No pattern takes long, however many runs stand in it.
  std::string runs = "re:";
  for (int i = 0; i < 250; ++i)
    runs += ".*";
  EXPECT_TRUE(meaningOfModules(runs + "~", layer).routed.none());
  std::string alternatives = "re:";
  for (int i = 0; i < 60; ++i)
    alternatives += "(a|b)";
  EXPECT_TRUE(none(alternatives));
  EXPECT_FALSE(
      meaningOfModules("re:" + std::string(5000, '('), layer).understood);
  // The states that names reach are bounded.
  EXPECT_FALSE(meaningOfModules("re:(.*e.{20}){9}.{20}x", {3, 4, 4096, true})
                   .routed.all());
}

} // namespace
