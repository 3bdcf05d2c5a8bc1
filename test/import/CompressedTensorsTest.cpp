//===- CompressedTensorsTest.cpp - quant_method compressed-tensors --------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Schemes by the descriptors of a group, combinations without a name, and what
// is refused.
//
//===----------------------------------------------------------------------===//

#include "test/import/QuantizationTesting.h"

#include <tuple>

using namespace moec;
using namespace moec::compiler;
using namespace moec::compiler::testing;

namespace {

json compressed(const char *format, json weights, json activations = nullptr) {
  return {{"quant_method", "compressed-tensors"},
          {"format", format},
          {"ignore", {"lm_head", "model.layers.0.mlp.gate"}},
          {"config_groups",
           {{"group_0",
             {{"targets", {"Linear"}},
              {"weights", std::move(weights)},
              {"input_activations", std::move(activations)}}}}}};
}

json args(const char *type, int bits, const char *strategy,
          const json &more = json::object()) {
  return with({{"type", type},
               {"num_bits", bits},
               {"strategy", strategy},
               {"symmetric", true}},
              more);
}

const json kToken = args("float", 8, "token", {{"dynamic", true}});
const json kTensor = args("float", 8, "tensor", {{"dynamic", false}});
const json kTensorDynamic = args("float", 8, "tensor", {{"dynamic", true}});
const json kChannel = args("float", 8, "channel");

TEST(Quantization, CompressedTensors) {
  const auto fp8 = [](const json &weights, const json &activations) {
    return read(compressed("float-quantized", weights, activations));
  };
  EXPECT_EQ(fp8(kChannel, kToken), "fp8_channel");
  EXPECT_EQ(fp8(kTensor, kTensor), "fp8_tensor");
  EXPECT_EQ(fp8(kTensor, kTensorDynamic), "fp8_tensor_dynamic");
  EXPECT_EQ(fp8(kChannel, nullptr), "fp8_w8a16");
  const json block =
      args("float", 8, "block", {{"block_structure", {128, 128}}});
  const json group =
      args("float", 8, "group", {{"group_size", 128}, {"dynamic", true}});
  EXPECT_EQ(fp8(block, group), "fp8_block");
  EXPECT_EQ(fp8(with(block, {{"block_structure", "128x128"}}), group),
            "fp8_block");
  const json token = args("int", 8, "token", {{"dynamic", true}});
  const auto int8 = [](const json &weights, const json &activations) {
    return read(compressed("int-quantized", weights, activations));
  };
  EXPECT_EQ(int8(args("int", 8, "channel"), token), "int8_channel");
  EXPECT_EQ(int8(args("int", 8, "tensor"), args("int", 8, "tensor")),
            "int8_tensor");
  // The defaults of QuantizationArgs: integers of 8 bits, by tensor.
  EXPECT_EQ(int8(json::object(), {{"dynamic", true}}), "int8_tensor_dynamic");
  const json mxfp4 = args("float", 4, "group",
                          {{"group_size", 32}, {"scale_dtype", "torch.uint8"}});
  EXPECT_EQ(read(compressed("mxfp4-pack-quantized", mxfp4)), "mxfp4_w4a16");
  EXPECT_EQ(read(compressed("mxfp4-pack-quantized", mxfp4,
                            with(mxfp4, {{"dynamic", true}}))),
            "mxfp4");
  const json mxfp8 = with(mxfp4, {{"num_bits", 8}});
  EXPECT_EQ(read(compressed("mxfp8-quantized", mxfp8,
                            with(mxfp8, {{"dynamic", true}}))),
            "mxfp8");
  const json nvfp4 =
      args("float", 4, "tensor_group",
           {{"group_size", 16}, {"scale_dtype", "torch.float8_e4m3fn"}});
  EXPECT_EQ(read(compressed("nvfp4-pack-quantized", nvfp4)), "nvfp4_w4a16");
  EXPECT_EQ(read(compressed("nvfp4-pack-quantized", nvfp4,
                            with(nvfp4, {{"dynamic", "local"}}))),
            "nvfp4");
  EXPECT_EQ(read(compressed("nvfp4-pack-quantized", nvfp4, kTensor)),
            "nvfp4_fp8");
}

TEST(Quantization, CompressedTensorsInWords) {
  const json int4 = args("int", 4, "group", {{"group_size", 32}});
  const json asymmetric = with(int4, {{"symmetric", false}});
  const auto packed = [](const json &weights, const json &activations) {
    return read(compressed("pack-quantized", weights, activations));
  };
  EXPECT_EQ(packed(int4, nullptr), "int4_w4a16 32 pack_quantized");
  // Without a strategy the size of groups says it.
  EXPECT_EQ(packed(without(int4, "strategy"), nullptr),
            "int4_w4a16 32 pack_quantized");
  EXPECT_EQ(packed(args("int", 4, "channel"), nullptr),
            "int4_w4a16 -1 pack_quantized");
  EXPECT_EQ(packed(args("int", 8, "channel"), nullptr),
            "int8_w8a16 -1 pack_quantized");
  EXPECT_EQ(packed(args("int", 8, "channel", {{"symmetric", false}}), nullptr),
            "int8_zp_w8a16 -1 pack_quantized");
  for (const auto &[order, isIndexed] : {std::pair<json, bool>("group", true),
                                         {"dynamic", true},
                                         {true, true},
                                         {"weight", false},
                                         {"static", false},
                                         {false, false}})
    EXPECT_EQ(packed(with(asymmetric, {{"actorder", order}}), nullptr),
              std::string("int4_zp_w4a16 32 pack_quantized") +
                  (isIndexed ? " index" : ""))
        << order;
  // A channel has one scale, whose columns have no order.
  EXPECT_EQ(packed(args("int", 4, "channel", {{"actorder", "group"}}), nullptr),
            "int4_w4a16 -1 pack_quantized");
  const json token = args("int", 8, "token", {{"dynamic", true}});
  EXPECT_EQ(packed(int4, token), "int4_w4aint8 32 pack_quantized");
  EXPECT_EQ(packed(args("int", 4, "channel"), kToken),
            "int4_w4afp8 -1 pack_quantized");
  EXPECT_EQ(packed(int4, kTensor),
            "f8E4M3FN [-1, -1] f32 x i4 [1, 32] f32 pack_quantized");
  // No scheme has tokens whose scales are powers of two.
  const json powers = {{"scale_dtype", "torch.uint8"}};
  EXPECT_EQ(packed(int4, with(token, powers)),
            "i8 [1, -1] f8E8M0FNU dynamic x i4 [1, 32] f32 pack_quantized");
  EXPECT_EQ(packed(int4, with(kToken, powers)),
            "f8E4M3FN [1, -1] f8E8M0FNU dynamic x i4 [1, 32] f32 "
            "pack_quantized");
}

/// Words of 8 bits beside activations are not those of 4 bits.
TEST(Quantization, CompressedTensorsInWordsOfEightBits) {
  const auto words = [](const json &activations) {
    return read(
        compressed("pack-quantized", args("int", 8, "channel"), activations));
  };
  EXPECT_EQ(words(args("int", 8, "token", {{"dynamic", true}})),
            "int8_channel pack_quantized");
  EXPECT_EQ(words(kToken),
            "f8E4M3FN [1, -1] f32 dynamic x i8 [1, -1] f32 pack_quantized");
}

TEST(Quantization, CompressedTensorsThatNoSchemeHas) {
  const auto fp8 = [](const json &weights, const json &activations) {
    return read(compressed("float-quantized", weights, activations));
  };
  EXPECT_EQ(fp8(kTensor, kToken), "fp8_tensor_token");
  EXPECT_EQ(fp8(kChannel, kTensor), "fp8_channel_static");
  EXPECT_EQ(fp8(kChannel, kTensorDynamic), "fp8_channel_tensor_dynamic");
  EXPECT_EQ(
      fp8(args("float", 8, "block", {{"block_structure", {64, 32}}}),
          args("float", 8, "group", {{"group_size", 32}, {"dynamic", true}})),
      "f8E4M3FN [1, 32] f32 dynamic x f8E4M3FN [64, 32] f32");
  // Beside MX weights other groups have scales that are no powers of two.
  const json mxfp4 = args("float", 4, "group",
                          {{"group_size", 32}, {"scale_dtype", "torch.uint8"}});
  const auto groups = [](int size) {
    return args("float", 8, "group", {{"group_size", size}, {"dynamic", true}});
  };
  EXPECT_EQ(read(compressed("mxfp4-pack-quantized", mxfp4, groups(64))),
            "f8E4M3FN [1, 64] f32 dynamic x f4E2M1FN [1, 32] f8E8M0FNU");
  EXPECT_EQ(read(compressed("mxfp4-pack-quantized", mxfp4, groups(128))),
            "mxfp4_fp8_block");
  EXPECT_EQ(read(compressed("mxfp4-pack-quantized", mxfp4, groups(32))),
            "mxfp4_mxfp8");
  EXPECT_EQ(
      read(compressed("mxfp6-pack-quantized", with(mxfp4, {{"num_bits", 6}}))),
      "bf16 x f6E2M3FN [1, 32] f8E8M0FNU");
  // Bytes may hold integers of 4 bits; activations of 4 bits stay what they
  // are.
  const json int4 = args("int", 4, "group", {{"group_size", 128}});
  const auto bytes = [&](const json &activations) {
    return read(compressed("int-quantized", int4, activations));
  };
  EXPECT_EQ(bytes(args("int", 8, "token", {{"dynamic", true}})),
            "i8 [1, -1] f32 dynamic x i8 [1, 128] f32");
  EXPECT_EQ(bytes(kToken), "f8E4M3FN [1, -1] f32 dynamic x i8 [1, 128] f32");
  EXPECT_EQ(bytes(args("int", 4, "token", {{"dynamic", true}})),
            "i4 [1, -1] f32 dynamic x i8 [1, 128] f32");
  // Activations that are not quantized are what the layer's input is.
  EXPECT_EQ(fp8(kTensor, nullptr), "bf16 x f8E4M3FN [-1, -1] f32");
  ImportOptions half;
  half.dtype = "f16";
  EXPECT_EQ(read(compressed("float-quantized", kTensor), half),
            "f16 x f8E4M3FN [-1, -1] f32");
  EXPECT_EQ(read(compressed("int-quantized", args("int", 8, "tensor"),
                            args("int", 8, "token", {{"dynamic", true}}))),
            "int8_tensor_token");
  EXPECT_EQ(read(compressed("int-quantized",
                            args("int", 8, "channel", {{"symmetric", false}}))),
            "bf16 x i8 [1, -1] f32 zero i8");
}

/// The importer's answer to a config with these arguments in its first group.
static std::string refusedGroup(const json &weights, const json &activations,
                                const char *format = "float-quantized") {
  return read(compressed(format, weights, activations));
}

static const std::string kGroup = kPath + "config_groups.group_0.";

TEST(Quantization, CompressedTensorsFormatsAreRefused) {
  EXPECT_EQ(refusedGroup(kChannel, nullptr, "marlin-24"),
            kPath + "format: expected \"float-quantized\", \"int-quantized\", "
                    "\"naive-quantized\", \"pack-quantized\", "
                    "\"mxfp4-pack-quantized\", \"mxfp6-pack-quantized\", "
                    "\"mxfp8-quantized\" or "
                    "\"nvfp4-pack-quantized\", got the string \"marlin-24\"");
  EXPECT_EQ(refusedGroup(args("float", 4, "group", {{"group_size", 16}}),
                         nullptr, "mxfp4-pack-quantized"),
            kGroup +
                "weights: expected float4 by group of 32 in format "
                "\"mxfp4-pack-quantized\", got float4 by group of 16; " +
                schemes());
  EXPECT_EQ(refusedGroup(args("int", 8, "channel"), nullptr),
            kGroup +
                "weights: expected float8 in format \"float-quantized\", "
                "got int8 by channel of -1; " +
                schemes());
  for (int bits : {5, 6, 7})
    EXPECT_EQ(
        refusedGroup(args("int", bits, "channel"), nullptr, "pack-quantized"),
        kGroup + "weights.num_bits: expected 4 or 8, got the number " +
            std::to_string(bits));
  EXPECT_EQ(refusedGroup(args("float", 5, "channel"), nullptr),
            kGroup + "weights.num_bits: expected 4, 6 or 8, got the number 5");
  EXPECT_EQ(refusedGroup(args("float", 6, "channel"), nullptr),
            kGroup +
                "weights: expected float8 in format \"float-quantized\", "
                "got float6 by channel of -1; " +
                schemes());
  EXPECT_EQ(refusedGroup(args("int", 8, "channel"), nullptr, "mxfp8-quantized"),
            kGroup +
                "weights: expected float8 by group of 32 in format "
                "\"mxfp8-quantized\", got int8 by channel of -1; " +
                schemes());
  EXPECT_EQ(refusedGroup(kChannel, nullptr, "naive-quantized"), "fp8_w8a16");
  EXPECT_EQ(refusedGroup(args("int", 4, "channel"), nullptr, "naive-quantized"),
            "bf16 x i8 [1, -1] f32");
  EXPECT_EQ(
      refusedGroup(args("float", 4, "channel"), nullptr, "naive-quantized"),
      kGroup +
          "weights: expected float8, int4 or int8 in format "
          "\"naive-quantized\", got float4 by channel of -1; " +
          schemes());
  EXPECT_EQ(refusedGroup(kChannel, nullptr, "pack-quantized"),
            kGroup +
                "weights: expected int4 or int8 in format "
                "\"pack-quantized\", got float8 by channel of -1; " +
                schemes());
  EXPECT_EQ(refusedGroup(args("float", 4, "tensor_group",
                              {{"group_size", 16}, {"scale_dtype", "uint8"}}),
                         nullptr, "nvfp4-pack-quantized"),
            kGroup + "weights.scale_dtype: expected \"torch.float8_e4m3fn\" or "
                     "none, got the string \"uint8\"");
}

TEST(Quantization, CompressedTensorsArgumentsAreRefused) {
  const std::tuple<json, json, const char *> rows[] = {
      {with(kChannel, {{"dynamic", true}}), kToken,
       "weights.dynamic: expected false for weights, got true"},
      {with(kChannel, {{"symmetric", false}}), kToken,
       "weights.symmetric: expected true for floats, got false"},
      {kChannel, with(kToken, {{"symmetric", false}}),
       "input_activations.symmetric: expected true for activations, got false"},
      {kChannel, with(kToken, {{"dynamic", false}}),
       "input_activations.dynamic: expected true with strategy \"token\", got "
       "false"},
      {kChannel, with(kToken, {{"dynamic", "local"}}),
       "input_activations.dynamic: expected true or false with strategy "
       "\"token\", got the string \"local\""},
      {with(kChannel, {{"strategy", "attn_head"}}), kToken,
       "weights.strategy: expected \"tensor\", \"channel\", \"group\", "
       "\"block\" or \"tensor_group\", got the string \"attn_head\""},
      {with(kChannel, {{"group_size", 128}}), kToken,
       "weights.group_size: expected none with strategy \"channel\", got 128"},
      {with(kChannel, {{"strategy", "group"}}), kToken,
       "weights.group_size: expected an integer from 1, with groups, got "
       "nothing"},
      {with(kChannel, {{"block_structure", {128, 128}}}), kToken,
       "weights.block_structure: expected none with strategy \"channel\", got "
       "an array"},
      {with(kChannel, {{"strategy", "block"}, {"block_structure", "64"}}),
       kToken,
       "weights.block_structure: expected rows and columns that share a "
       "scale, such as [128, 128], got the string \"64\""},
      {with(kChannel, {{"scale_dtype", "torch.float8_e4m3fn"}}), kToken,
       "weights.scale_dtype: expected a float type of 16 or 32 bits, "
       "\"torch.uint8\" or none, got the string \"torch.float8_e4m3fn\""},
      {kChannel, args("float", 4, "tensor_group", {{"group_size", 16}}),
       "input_activations.dynamic: expected \"local\" or true with "
       "\"tensor_group\", got nothing"}};
  for (const auto &[weights, activations, message] : rows)
    EXPECT_EQ(refusedGroup(weights, activations), kGroup + message);
  for (const char *shape : {"0x128", "128x0", "1048577x128", "128x1048577",
                            "128x128x", "x128", "-1x128", "128X128"})
    EXPECT_EQ(refusedGroup(with(kChannel, {{"strategy", "block"},
                                           {"block_structure", shape}}),
                           kToken),
              kGroup +
                  "weights.block_structure: expected rows and columns that "
                  "share a scale, such as [128, 128], got the string \"" +
                  shape + "\"");
  const std::string unknown =
      refusedGroup(with(kChannel, {{"rounding", "floor"}}), kToken);
  EXPECT_TRUE(unknown.starts_with(
      kGroup + "weights.rounding: unknown field; accepted here: actorder, "))
      << unknown;
}

TEST(Quantization, CompressedTensorsBesideGroupsAreRefused) {
  json quant = compressed("float-quantized", kChannel, kToken);
  quant["config_groups"]["group_0"]["output_activations"] = kTensor;
  EXPECT_EQ(read(quant),
            kGroup +
                "output_activations: expected null: outputs of experts are "
                "not quantized, got an object; " +
                schemes());
  quant = compressed("float-quantized", kChannel, kToken);
  quant["sparsity_config"] = {{"format", "sparse-24-bitmask"}};
  EXPECT_EQ(read(quant), kPath + "sparsity_config.format: expected \"dense\", "
                                 "got the string \"sparse-24-bitmask\"");
  quant["sparsity_config"] = json::object();
  quant["transform_config"] = {{"config_groups", {{"R1", json::object()}}}};
  EXPECT_EQ(read(quant),
            kPath +
                "transform_config.config_groups: expected none: rotations "
                "of weights and activations are no part of a layer, got an "
                "object; " +
                schemes());
  quant["transform_config"] = {{"expert_substitution", {{"version", 1}}}};
  EXPECT_EQ(read(quant),
            kPath + "transform_config.expert_substitution: experts are "
                    "constant vectors (MoNE), which no importer makes; "
                    "accepted: a layer JSON with num_constant_experts, for a "
                    "router whose constant experts are the last");
  for (const json &none : {json(nullptr), json::object()}) {
    quant["transform_config"] = {{"expert_substitution", none}};
    EXPECT_EQ(read(quant), "fp8_channel") << none;
  }
  quant["transform_config"] = {{"expert_substitutions", {{"version", 1}}}};
  EXPECT_NE(read(quant).find("transform_config.expert_substitutions: "),
            std::string::npos)
      << read(quant);
  quant["transform_config"] = {{"config_groups", json::object()}};
  EXPECT_EQ(read(quant), "fp8_channel");
  quant.erase("transform_config");
  EXPECT_EQ(read(without(quant, "config_groups")),
            kPath + "config_groups: expected an object with groups, got "
                    "nothing");
  quant["config_groups"]["group_0"].erase("weights");
  EXPECT_EQ(read(quant), kGroup + "weights: expected an object: experts are "
                                  "quantized, got nothing");
}

/// The key that compressed-tensors wrote before.
TEST(Quantization, CompressionConfig) {
  const auto both = [](const json &older, const json &newer,
                       const ImportOptions &options = {}) {
    json config = json::parse(modelText("qwen3-30b-a3b"));
    config["compression_config"] = older;
    if (!newer.is_discarded())
      config["quantization_config"] = newer;
    Result<LayerDescription> layer =
        readDescription(config.dump(), "in.json", options);
    if (!layer)
      return layer.error().message;
    const QuantDescription &quant = layer->quant;
    return quant.scheme +
           (quant.groupSize ? " " + std::to_string(quant.groupSize) : "") +
           (layer->storedLayout == "rows" ? "" : " " + layer->storedLayout);
  };
  const json absent = json(json::value_t::discarded);
  const json fp8 = compressed("float-quantized", kChannel, kToken);
  const json packed = compressed("pack-quantized",
                                 args("int", 4, "group", {{"group_size", 64}}));
  EXPECT_EQ(both(fp8, absent), "fp8_channel");
  EXPECT_EQ(both(fp8, nullptr), "fp8_channel");
  EXPECT_EQ(both(packed, absent), "int4_w4a16 64 pack_quantized");
  EXPECT_EQ(both(fp8, fp8), "fp8_channel");
  EXPECT_EQ(both(nullptr, absent), "bf16");
  EXPECT_EQ(both(nullptr, fp8), "fp8_channel");
  EXPECT_EQ(both(with(fp8, {{"quant_method", "compressed_tensors"}}), absent),
            "fp8_channel");
  EXPECT_EQ(both(fp8, packed),
            "in.json: $.compression_config: differs from quantization_config; "
            "expected one of them, or --ignore-field=compression_config");
  ImportOptions options;
  options.ignoreFields = {"compression_config"};
  EXPECT_EQ(both(fp8, packed, options), "int4_w4a16 64 pack_quantized");
  EXPECT_EQ(both(fp8, absent, options),
            "in.json: --ignore-field: 'compression_config' sets the scheme of "
            "the experts' weights; accepted: --scheme=NAME in place of "
            "--ignore-field");
  options.ignoreFields = {"quantization_config"};
  EXPECT_EQ(both(fp8, packed, options), "fp8_channel");
  // Errors name the key.
  EXPECT_EQ(both(without(fp8, "config_groups"), absent),
            "in.json: $.compression_config.config_groups: expected an object "
            "with groups, got nothing");
  json plain = fp8;
  plain["ignore"] = {"re:.*experts.*"};
  EXPECT_NE(both(plain, absent)
                .find("$.compression_config: leaves all experts of layer 0"),
            std::string::npos);
  // A named scheme takes the layout of words from it.
  options = {};
  options.scheme = "int4_w4a16";
  EXPECT_NE(both(packed, absent, options).find("pack_quantized"),
            std::string::npos);
}

/// A field that is null counts as absent, whether moec knows it or not.
TEST(Quantization, NullFieldsOfCompressedTensors) {
  const json nulls = {
      {"actorder", nullptr},      {"block_structure", nullptr},
      {"observer", nullptr},      {"observer_kwargs", json::object()},
      {"scale_dtype", nullptr},   {"zp_dtype", nullptr},
      {"some_new_field", nullptr}};
  const auto both = [&](const char *format, const json &weights,
                        const json &activations) {
    EXPECT_EQ(read(compressed(format, with(weights, nulls),
                              with(activations, nulls))),
              read(compressed(format, weights, activations)));
    return read(compressed(format, weights, activations));
  };
  EXPECT_EQ(both("float-quantized", kChannel, kToken), "fp8_channel");
  EXPECT_EQ(both("int-quantized", args("int", 8, "channel"),
                 args("int", 8, "token", {{"dynamic", true}})),
            "int8_channel");
  const json nvfp4 = args("float", 4, "tensor_group", {{"group_size", 16}});
  EXPECT_EQ(
      both("nvfp4-pack-quantized", nvfp4, with(nvfp4, {{"dynamic", "local"}})),
      "nvfp4");
}

TEST(Quantization, GroupsOfCompressedTensors) {
  const auto targets = [](const json &first, const json &second = nullptr) {
    json quant = compressed("float-quantized", kChannel, kToken);
    quant["config_groups"]["group_0"]["targets"] = first;
    if (!second.is_null())
      quant["config_groups"]["group_1"] = {
          {"targets", second},
          {"format", "pack-quantized"},
          {"weights", args("int", 4, "group", {{"group_size", 32}})}};
    return read(quant);
  };
  // Attention in one way, experts in another; names count more than classes.
  EXPECT_EQ(targets({"re:.*self_attn.*"}, {"re:.*mlp\\.experts.*"}),
            "int4_w4a16 32 pack_quantized");
  EXPECT_EQ(targets({"Linear"}, {"re:.*experts.*(gate|up|down)_proj$"}),
            "int4_w4a16 32 pack_quantized");
  EXPECT_EQ(targets({"Linear"}, {"re:.*self_attn.*"}), "fp8_channel");
  EXPECT_EQ(targets({"re:.*mlp\\.experts.*"}, {"Linear"}), "fp8_channel");
  EXPECT_EQ(targets({"re:.*self_attn.*"}, {"Linear"}),
            "int4_w4a16 32 pack_quantized");
  EXPECT_EQ(targets({"re:.*experts.*"}, {"re:.*mlp.*"}),
            kPath +
                "config_groups: expected one group whose targets are the "
                "experts (\"Linear\", or their names), got 2 of 2 groups; " +
                schemes());
  EXPECT_EQ(targets({"re:.*self_attn.*"}),
            kPath +
                "config_groups: expected one group whose targets are the "
                "experts (\"Linear\", or their names), got 0 of 1 groups; " +
                schemes());
  EXPECT_EQ(targets({"Linear"}, {"Linear"}),
            kPath +
                "config_groups: expected one group whose targets are the "
                "experts (\"Linear\", or their names), got 2 of 2 groups; " +
                schemes());
  const std::string some =
      kPath +
      "config_groups.group_0.targets: names some experts or parts of "
      "them, or cannot be told from that; accepted: \"Linear\", or "
      "names of all routed experts; " +
      schemes();
  for (const char *target :
       {"re:.*experts.*down_proj", "model.layers.0.mlp.experts.3",
        "re:.*layers\\.[0-3]\\..*experts\\.\\d\\..*", "re:.*(?!attn)",
        "Qwen3MoeExperts", "GptOssExperts", "FusedMoE", "OlmoeSparseMoeBlock"})
    EXPECT_EQ(targets({target}), some) << target;
  // Groups of other layers have no effect.
  EXPECT_EQ(targets({"re:.*layers\\.[1-3]\\..*"}, {"re:.*layers\\.0\\..*"}),
            "int4_w4a16 32 pack_quantized");
  EXPECT_EQ(targets({"re:.*layers\\.[0-3]\\..*"}, {"re:.*layers\\.4\\..*"}),
            "fp8_channel");
  EXPECT_EQ(targets({"Linear"}, {"model.layers.3.mlp.experts.0.up_proj"}),
            "fp8_channel");
  EXPECT_EQ(targets("Linear"),
            kPath + "config_groups.group_0.targets: expected an array of at "
                    "most 1024 names of modules or of their classes, got the "
                    "string \"Linear\"");
}

} // namespace
