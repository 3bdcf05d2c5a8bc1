//===- QuarkTest.cpp - quantization_config of AMD's Quark -----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/import/Vocabulary.h"
#include "test/import/ImportTesting.h"

#include <gtest/gtest.h>

using namespace moec;
using namespace moec::compiler;
using namespace moec::compiler::testing;

namespace {

std::string schemeOf(const nlohmann::json &quantization) {
  Result<LayerDescription> layer = readDescription(
      changed("qwen3-30b-a3b", {{"quantization_config", quantization}}),
      "in.json", {});
  return layer ? layer->quant.scheme : layer.error().message;
}

/// As AMD's Quark writes one tensor.
nlohmann::json quarkSpec(const char *type, const char *shared, bool isDynamic,
                         int64_t group = 0) {
  nlohmann::json spec = {{"dtype", type},
                         {"is_dynamic", isDynamic},
                         {"qscheme", shared},
                         {"ch_axis", nullptr},
                         {"group_size", nullptr},
                         {"symmetric", true},
                         {"round_method", "half_even"},
                         {"scale_type", "float"},
                         {"scale_format", nullptr},
                         {"scale_calculation_mode", nullptr},
                         {"observer_cls", "PerTensorMinMaxObserver"}};
  if (group > 0)
    spec["group_size"] = group;
  if (group == 32) {
    spec["scale_format"] = "e8m0";
    spec["scale_calculation_mode"] = "even";
    spec["observer_cls"] = "PerBlockMXObserver";
  }
  return spec;
}

nlohmann::json quark(nlohmann::json weights, nlohmann::json activations) {
  return {{"quant_method", "quark"},
          {"exclude", {"lm_head", "*mlp.gate", "*self_attn*"}},
          {"export",
           {{"kv_cache_group", nlohmann::json::array()},
            {"pack_method", "reorder"},
            {"weight_format", "real_quantized"}}},
          {"global_quant_config",
           {{"weight", weights},
            {"input_tensors", activations},
            {"output_tensors", nullptr},
            {"bias", nullptr}}},
          {"layer_quant_config", nlohmann::json::object()},
          {"layer_type_quant_config", nlohmann::json::object()},
          {"quant_mode", "eager_mode"}};
}

TEST(Quark, NamesAScheme) {
  const auto tensor = quarkSpec("fp8_e4m3", "per_tensor", false);
  const auto dynamic = quarkSpec("fp8_e4m3", "per_tensor", true);
  const auto channel = quarkSpec("fp8_e4m3", "per_channel", false);
  const auto token = quarkSpec("fp8_e4m3", "per_channel", true);
  const auto mxfp4 = quarkSpec("fp4", "per_group", false, 32);
  EXPECT_EQ(schemeOf(quark(tensor, tensor)), "fp8_tensor");
  EXPECT_EQ(schemeOf(quark(tensor, dynamic)), "fp8_tensor_dynamic");
  EXPECT_EQ(schemeOf(quark(channel, token)), "fp8_channel");
  EXPECT_EQ(schemeOf(quark(channel, nullptr)), "fp8_w8a16");
  EXPECT_EQ(schemeOf(quark(mxfp4, nullptr)), "mxfp4_w4a16");
  EXPECT_EQ(schemeOf(quark(mxfp4, tensor)), "mxfp4_fp8");
  EXPECT_EQ(schemeOf(quark(mxfp4, quarkSpec("fp4", "per_group", true, 32))),
            "mxfp4");
  for (const char *type : {"fp6_e3m2", "fp6_e2m3"})
    EXPECT_EQ(schemeOf(quark(quarkSpec(type, "per_group", false, 32),
                             quarkSpec(type, "per_group", true, 32))),
              std::string("mx") + type);
  EXPECT_EQ(schemeOf(quark({quarkSpec("fp4", "per_group", false, 16), tensor},
                           {quarkSpec("fp4", "per_group", true, 16), tensor})),
            "nvfp4");
  EXPECT_EQ(schemeOf(quark(quarkSpec("int8", "per_channel", false),
                           quarkSpec("int8", "per_channel", true))),
            "int8_channel");
  // A cache's quantization is nobody's business; experts may have their own.
  nlohmann::json mixed = quark(tensor, tensor);
  mixed["layer_quant_config"]["*v_proj"] = {{"weight", tensor},
                                            {"input_tensors", tensor},
                                            {"output_tensors", tensor}};
  mixed["layer_quant_config"]["*experts*"] = {{"weight", mxfp4},
                                              {"input_tensors", nullptr}};
  EXPECT_EQ(schemeOf(mixed), "mxfp4_w4a16");
  // A star may stand for experts without their name.
  mixed["layer_quant_config"].erase("*experts*");
  mixed["layer_quant_config"]["*down_proj"] = {{"weight", tensor},
                                               {"input_tensors", tensor},
                                               {"output_tensors", nullptr},
                                               {"bias", nullptr}};
  EXPECT_EQ(schemeOf(mixed), "fp8_tensor");
  // Patterns of this layer count, those of other layers do not.
  mixed = quark(tensor, tensor);
  mixed["layer_quant_config"]["model.layers.3.mlp.experts.*"] = {
      {"weight", mxfp4}};
  EXPECT_EQ(schemeOf(mixed), "fp8_tensor");
  mixed["layer_quant_config"]["model.layers.0.mlp.experts.*"] = {
      {"weight", mxfp4}};
  EXPECT_EQ(schemeOf(mixed), "mxfp4_w4a16");
}

TEST(Quark, WhatIsNoSchemeIsRefused) {
  auto refused = [](nlohmann::json quantization) {
    return refusalOf(
        changed("qwen3-30b-a3b", {{"quantization_config", quantization}}));
  };
  const std::string schemes =
      "another scheme of the expert weights is named with --scheme= (`moec "
      "list schemes` has all)";
  const std::string path = "in.json: $.quantization_config.";
  const auto tensor = quarkSpec("fp8_e4m3", "per_tensor", false);
  const auto mxfp4 = quarkSpec("fp4", "per_group", false, 32);
  // Weights of int4, whose scales have an e4m3 scale: no kernel has them.
  const std::string error =
      refused(quark({tensor, quarkSpec("int4", "per_channel", false)}, tensor));
  EXPECT_TRUE(error.starts_with(
      path + "global_quant_config.weight: no scheme has weights of \"fp8_e4m3 "
             "per_tensor, int4 per_channel\" with activations of \"fp8_e4m3 "
             "per_tensor\"; accepted: fp8_e4m3 per_tensor with fp8_e4m3 "
             "per_tensor; "))
      << error;
  EXPECT_TRUE(error.ends_with("; " + schemes)) << error;
  nlohmann::json spec = quarkSpec("fp4", "per_group", true, 32);
  spec["scale_calculation_mode"] = "floor";
  EXPECT_EQ(refused(quark(mxfp4, spec)),
            path + "global_quant_config.input_tensors.scale_calculation_mode: "
                   "expected \"even\" for scales of fp4, got the string "
                   "\"floor\"; a layer JSON can say another (scale_rule)");
  spec = tensor;
  spec["qscheme"] = "per_block";
  EXPECT_EQ(refused(quark(spec, tensor)),
            path + "global_quant_config.weight.qscheme: expected "
                   "\"per_tensor\", \"per_channel\" or \"per_group\", got the "
                   "string \"per_block\"");
  nlohmann::json some = quark(tensor, tensor);
  some["layer_quant_config"]["model.layers.0.mlp.experts.3.*"] = {
      {"weight", mxfp4}};
  EXPECT_EQ(refused(some),
            path +
                "layer_quant_config.model.layers.0.mlp.experts.3.*: quantizes "
                "some experts in another way than others; " +
                schemes);
  // Two patterns for one expert, whichever comes first.
  const nlohmann::json all = {{"weight", tensor}, {"input_tensors", tensor}},
                       other = {{"weight", mxfp4}};
  for (const auto &[first, second] :
       {std::pair(all, other), std::pair(other, all)}) {
    some = quark(tensor, tensor);
    some["layer_quant_config"] = {{"*experts.3.*", first},
                                  {"model.layers.0.mlp.experts.*", second}};
    const std::string pattern =
        first == all ? "model.layers.0.mlp.experts.*" : "*experts.3.*";
    EXPECT_EQ(refused(some),
              path + "layer_quant_config." + pattern +
                  ": quantizes some experts in another way than others; " +
                  schemes);
    some["layer_quant_config"] = {{"*experts*", first},
                                  {"model.layers.0.mlp.experts.*", second}};
    EXPECT_EQ(refused(some),
              path +
                  "layer_quant_config.model.layers.0.mlp.experts.*: quantizes "
                  "some experts in another way than others; " +
                  schemes);
  }
  some = quark(tensor, tensor);
  some["layer_quant_config"]["*.experts.x*.up_proj"] = {{"weight", mxfp4}};
  EXPECT_EQ(refused(some),
            path + "layer_quant_config.*.experts.x*.up_proj: cannot be "
                   "compared with names of experts");
  nlohmann::json outputs = quark(tensor, tensor);
  outputs["global_quant_config"]["output_tensors"] = tensor;
  EXPECT_TRUE(refused(outputs).starts_with(
      path + "global_quant_config.output_tensors: expected null: outputs and "
             "biases of experts are not quantized, got "));
  // Integers say whether they have zero points, and channels are rows.
  nlohmann::json integers = quarkSpec("int8", "per_channel", false);
  integers["symmetric"] = nullptr;
  const auto token = quarkSpec("int8", "per_channel", true);
  EXPECT_EQ(refused(quark(integers, token)),
            path + "global_quant_config.weight.symmetric: expected true or "
                   "false for integers, got nothing");
  integers["symmetric"] = false;
  EXPECT_TRUE(refused(quark(integers, token))
                  .starts_with(path + "global_quant_config.weight: no scheme "
                                      "has weights of \"int8 per_channel "
                                      "asymmetric\" with activations of \"int8 "
                                      "per_channel dynamic\"; accepted: "))
      << refused(quark(integers, token));
  integers["symmetric"] = true;
  integers["ch_axis"] = 1;
  EXPECT_EQ(refused(quark(integers, token)),
            path + "global_quant_config.weight.ch_axis: expected 0 with "
                   "per_channel, got the number 1");
  integers["ch_axis"] = 0;
  EXPECT_EQ(refused(quark(integers, integers)),
            path + "global_quant_config.input_tensors.ch_axis: expected 1, -1 "
                   "or null with per_channel, got the number 0");
  some = quark(tensor, tensor);
  some["algo_config"] = {{{"name", "quarot_rotation"}}};
  EXPECT_EQ(refused(some),
            path +
                "algo_config: the string \"quarot_rotation\" may rotate "
                "activations, which is no part of a layer; " +
                schemes);
  some = quark(tensor, tensor);
  some["layer_type_quant_config"]["Linear"] = {{"weight", mxfp4}};
  EXPECT_EQ(refused(some),
            path +
                "layer_type_quant_config: expected none: modules are "
                "identified by layer_quant_config, got an object; " +
                schemes);
  some = quark(tensor, tensor);
  some.erase("global_quant_config");
  EXPECT_EQ(refused(some),
            path + "global_quant_config: expected an object, got nothing");
}

} // namespace
