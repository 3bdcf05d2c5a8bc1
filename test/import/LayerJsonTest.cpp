//===- LayerJsonTest.cpp - moec's own description of a layer --------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/import/Vocabulary.h"
#include "test/import/LayerJsonTesting.h"

using namespace moec;
using namespace moec::compiler;
using namespace moec::compiler::testing;

namespace {

TEST(LayerJson, TheSmallestLayer) {
  LayerDescription layer = accepted({{"routing_method", nullptr}});
  EXPECT_EQ(layer.name, "small");
  EXPECT_EQ(layer.experts, 8);
  EXPECT_EQ(layer.topK, 2);
  EXPECT_EQ(layer.hidden, 64);
  EXPECT_EQ(layer.intermediate, 32);
  EXPECT_EQ(layer.inputType, "bf16");
  EXPECT_EQ(layer.outputType, "bf16");
  EXPECT_EQ(layer.logitsType, "bf16");
  EXPECT_EQ(layer.quant.scheme, "bf16");
  EXPECT_EQ(layer.activation.function, "silu");
  EXPECT_FALSE(layer.activation.limit);
  EXPECT_EQ(layer.routing.method, "auto");
  EXPECT_EQ(layer.routing.scoring, "softmax");
  EXPECT_EQ(layer.routing.renormalize, true);
  EXPECT_EQ(layer.gateUpOrder, "gate_first");
  EXPECT_EQ(layer.parallel.tp, 1);
  EXPECT_FALSE(layer.hasBias);
  EXPECT_FALSE(layer.groupIndex);
}

TEST(LayerJson, EveryField) {
  LayerDescription layer = accepted({
      {"name", "full"},
      {"in_dtype", "torch.float16"},
      {"out_dtype", "f32"},
      {"router_logits_dtype", "float32"},
      {"activation", "gelu_tanh_no_mul"},
      {"swiglu_alpha", 1.702},
      {"swiglu_beta", 1},
      {"swiglu_limit", 7.0},
      {"routing_method", "auto"},
      {"scoring_func", "sigmoid"},
      {"renormalize", false},
      {"num_expert_group", 4},
      {"topk_group", 2},
      {"routed_scaling_factor", 2.5},
      {"e_score_correction_bias", true},
      {"has_bias", true},
      {"group_index", true},
      {"gate_up_order", "interleaved"},
      {"accumulate", "fast"},
      {"apply_router_weight_on_input", true},
      {"apply_routed_scale_to_output", true},
      {"n_shared_experts", 1},
      {"num_redundant_experts", 2},
      {"defer_moe_finalize", true},
      {"shared_expert_gate", true},
      {"expert_map", true},
      {"input_quantized", true},
      {"residual", true},
      {"batch_invariant", true},
      {"latent_hidden_size", 64},
  });
  EXPECT_EQ(layer.inputType, "f16");
  EXPECT_EQ(layer.outputType, "f32");
  EXPECT_EQ(layer.logitsType, "f32");
  EXPECT_EQ(layer.activation.function, "gelu_tanh_no_mul");
  EXPECT_EQ(layer.activation.alpha, 1.702);
  EXPECT_EQ(layer.activation.beta, 1.0);
  EXPECT_EQ(layer.activation.limit, 7.0);
  EXPECT_EQ(layer.routing.scoring, "sigmoid");
  EXPECT_EQ(layer.routing.renormalize, false);
  EXPECT_EQ(layer.routing.groups, 4);
  EXPECT_EQ(layer.routing.topGroups, 2);
  EXPECT_EQ(layer.routing.scale, 2.5);
  EXPECT_TRUE(layer.routing.bias);
  EXPECT_TRUE(layer.hasBias);
  EXPECT_TRUE(layer.groupIndex);
  EXPECT_EQ(layer.gateUpOrder, "interleaved");
  EXPECT_EQ(layer.accumulate, "fast");
  EXPECT_TRUE(layer.applyRouterWeightOnInput);
  EXPECT_TRUE(layer.routedScaleOnOutput);
  EXPECT_EQ(layer.numSharedExperts, 1);
  EXPECT_EQ(layer.redundantExperts, 2);
  EXPECT_TRUE(layer.deferFinalize);
  EXPECT_TRUE(layer.sharedExpertGate);
  EXPECT_TRUE(layer.expertMap);
  EXPECT_TRUE(layer.inputQuantized);
  EXPECT_TRUE(layer.residual);
  EXPECT_TRUE(layer.batchInvariant);
  EXPECT_EQ(layer.latentHidden, 64);
}

TEST(LayerJson, EveryFieldOfQuantAndParallel) {
  LayerDescription layer = accepted({
      {"quant_config",
       {{"a1",
         {{"dtype", "float8_e4m3fn"},
          {"shape", {1, 128}},
          {"scale", "float32"},
          {"dynamic", true}}},
        {"a2",
         {{"dtype", "f8E4M3FN"},
          {"shape", {1, 128}},
          {"scale", "f32"},
          {"dynamic", true}}},
        {"w1",
         {{"dtype", "i4"},
          {"shape", {1, 32}},
          {"scale", "bf16"},
          {"zp", "i4"}}},
        {"w2",
         {{"dtype", "float4_e2m1fn_x2"},
          {"shape", {1, 16}},
          {"scale", "f8E4M3FN"},
          {"alpha_or_gscale", "f32"}}}}},
      {"moe_parallel_config",
       {{"tp_size", 2},
        {"tp_rank", 1},
        {"pcp_size", 2},
        {"pcp_rank", 1},
        {"dp_size", 4},
        {"dp_rank", 3},
        {"sp_size", 1},
        {"use_ep", true}}},
  });
  EXPECT_EQ(layer.quant.scheme, "");
  EXPECT_EQ(layer.quant.a1.element, "f8E4M3FN");
  EXPECT_EQ(layer.quant.a1.group, (std::vector<int64_t>{1, 128}));
  EXPECT_TRUE(layer.quant.a1.dynamic);
  EXPECT_EQ(layer.quant.w1.zeroPoint, "i4");
  EXPECT_EQ(layer.quant.w2.element, "f4E2M1FN");
  EXPECT_EQ(layer.quant.w2.secondScale, "f32");
  EXPECT_EQ(layer.parallel.tpRank, 1);
  EXPECT_EQ(layer.parallel.pcp, 2);
  EXPECT_EQ(layer.parallel.dpRank, 3);
  EXPECT_TRUE(layer.parallel.ep);
}

TEST(LayerJson, NameFromTheFile) {
  EXPECT_EQ(accepted({{"name", nullptr}}).name, "in");
}

TEST(LayerJson, TheInputMayBeOfAnotherTypeThanTheScheme) {
  const LayerDescription layer =
      accepted({{"in_dtype", "f32"}, {"quant_config", "f16"}});
  EXPECT_EQ(layer.inputType, "f32");
  EXPECT_EQ(layer.outputType, "f32");
  EXPECT_EQ(layer.quant.scheme, "f16");
}

TEST(LayerJson, NumbersOfActivations) {
  const ActivationDescription situ =
      accepted({{"activation", "situ"},
                {"activation_situ_beta", 3.0},
                {"activation_situ_linear_beta", 0.0}})
          .activation;
  EXPECT_EQ(situ.beta, 3.0);
  EXPECT_EQ(situ.linearBeta, 0.0);
  EXPECT_FALSE(situ.perExpert);
  EXPECT_TRUE(
      accepted({{"activation", "swigluoai"}, {"activation_per_expert", true}})
          .activation.perExpert);
}

TEST(LayerJson, Version) {
  EXPECT_EQ(refused({{"moec_layer", 2}}),
            "in.json: $.moec_layer: expected the version of the format, 1, "
            "got the number 2");
  EXPECT_EQ(refused({{"moec_layer", "1"}}),
            "in.json: $.moec_layer: expected the version of the format, 1, "
            "got the string \"1\"");
}

TEST(LayerJson, MisspeltWords) {
  EXPECT_EQ(refused({{"num_experts", nullptr}, {"num_expert", 8}}),
            "in.json: $.num_experts: expected an integer from 1 to 65536, got "
            "nothing; did you mean it by \"num_expert\"?");
  EXPECT_EQ(refused({{"num_experts", nullptr}, {"colour", 8}}),
            "in.json: $.num_experts: expected an integer from 1 to 65536, got "
            "nothing\n" +
                refused({{"colour", 8}}));
  for (const auto &[word, meant] :
       {std::pair<std::string, std::string>("swiglu", "silu"),
        {"silu_nomul", "silu_no_mul"}}) {
    const std::string message = refused({{"activation", word}});
    EXPECT_EQ(message, "in.json: $.activation: expected a known name (did you "
                       "mean \"" +
                           meant +
                           "\"? `moec list activations` has all), got the "
                           "string \"" +
                           word + "\"");
  }
  const std::string schemes = refused({{"quant_config", "fp8"}});
  EXPECT_TRUE(schemes.starts_with(
      "in.json: $.quant_config: expected a known name (did you mean "
      "\"fp8_tensor\", \"fp8_tensor_dynamic\", \"fp8_channel\", "
      "\"fp8_tensor_token\", \"fp8_channel_static\", "
      "\"fp8_channel_tensor_dynamic\", \"fp8_block\", \"fp8_block_ue8m0\" or "
      "\"fp8_w8a16\"? `moec list schemes` has all)"))
      << schemes;
}

TEST(LayerJson, UnknownFields) {
  // A near key, or the key for another format's word, is named without a list.
  EXPECT_EQ(refused({{"num_expert", 8}}),
            "in.json: $.num_expert: unknown field; did you mean "
            "\"num_experts\"?");
  EXPECT_EQ(refused({{"num_experts_per_tok", 4}}),
            "in.json: $.num_experts_per_tok: unknown field; did you mean "
            "\"top_k\"?");
  EXPECT_EQ(
      refused({{"flavour", 8}}),
      "in.json: $.flavour: unknown field; "
      "accepted here: accumulate, "
      "activation, activation_format, activation_per_expert, "
      "activation_situ_beta, activation_situ_linear_beta, "
      "apply_routed_scale_to_output, apply_router_weight_on_input, "
      "batch_invariant, "
      "defer_moe_finalize, disable_inplace, "
      "e_score_correction_bias, expert_map, "
      "gate_up_order, group_index, has_bias, hash_vocabulary, hidden_size, "
      "in_dtype, "
      "input_quantized, "
      "intermediate_size, "
      "is_act_and_mul, is_lora_enabled, latent_hidden_size, "
      "moe_parallel_config, moec_layer, n_shared_experts, name, "
      "norm_topk_prob_eps, num_constant_experts, num_expert_group, "
      "num_experts, num_redundant_experts, num_sink_experts, "
      "num_zero_experts, out_dtype, "
      "per_expert_scale, post_expert_norm_eps, quant_config, "
      "renormalize, residual, routed_scaling_factor, "
      "router_logit_softcapping, router_logits_dtype, "
      "router_output_multiplier, "
      "routing_method, scoring_func, shared_expert_gate, "
      "shared_intermediate_size, "
      "skip_final_all_reduce, stored_hidden_size, "
      "stored_intermediate_size_per_partition, stored_layout, "
      "swiglu_alpha, swiglu_beta, swiglu_limit, top_k, "
      "topk_group "
      "and weights_dtype");
  EXPECT_EQ(refused({{"moe_parallel_config", {{"tp", 2}}}}),
            "in.json: $.moe_parallel_config.tp: unknown field; did you mean "
            "\"tp_rank\" or \"tp_size\"?");
  EXPECT_EQ(
      refused({{"moe_parallel_config", {{"colour", 2}}}}),
      "in.json: $.moe_parallel_config.colour: unknown field; accepted here: "
      "all2all_backend, dp_rank, dp_size, enable_eplb, ep_rank, "
      "ep_size, expert_placement_strategy, pcp_rank, pcp_size, sp_size, "
      "tp_rank, tp_size and use_ep");
  EXPECT_EQ(refused({{"quant_config", {{"scheme", "bf16"}, {"bits", 4}}}}),
            "in.json: $.quant_config.bits: unknown field; accepted here: a1, "
            "a2, group_size, is_scale_swizzled, scheme, w1 and w2");
  EXPECT_EQ(
      refused({{"quant_config", {{"w1", {{"dtype", "bf16"}, {"bits", 4}}}}}}),
      "in.json: $.quant_config.w1.bits: unknown field; accepted here: "
      "alpha_or_gscale, dtype, dynamic, scale, scale_rule, "
      "second_per_row, shape and zp");
}

TEST(LayerJson, OtherNamesOfFields) {
  EXPECT_EQ(accepted({{"hidden_size", nullptr}, {"hidden_dim", 96}}).hidden,
            96);
  EXPECT_EQ(accepted({{"stored_hidden_dim", 128}}).storedHidden, 128);
  EXPECT_EQ(accepted({{"latent_hidden_dim", 32}}).latentHidden, 32);
  EXPECT_EQ(accepted({{"top_k", nullptr}, {"experts_per_token", 3}}).topK, 3);
  EXPECT_EQ(accepted({{"top_k", 3}, {"experts_per_token", nullptr}}).topK, 3);
  EXPECT_EQ(refused({{"experts_per_token", 2}}),
            "in.json: $.experts_per_token: expected one of top_k and "
            "experts_per_token, which are the same");
  EXPECT_EQ(refused({{"top_k", nullptr}, {"experts_per_token", 9}}),
            "in.json: $.experts_per_token: expected an integer from 1 to 8, "
            "got the number 9; num_experts is 8");
}

TEST(LayerJson, FieldsThatVllmHasAndThisFormatHasNot) {
  EXPECT_EQ(refused({{"num_local_experts", 8}}),
            "in.json: $.num_local_experts: no field of this format: moec "
            "computes it from moe_parallel_config");
  EXPECT_EQ(refused({{"moe_backend", "auto"}}),
            "in.json: $.moe_backend: no field of this format: the option "
            "--backend specifies it");
  EXPECT_EQ(refused({{"hidden_dim_unpadded", 2880}}),
            "in.json: $.hidden_dim_unpadded: no field of this format: say it "
            "as hidden_size, and of padded weights stored_hidden_size");
  EXPECT_EQ(refused({{"intermediate_size_per_partition_unpadded", 360}}),
            "in.json: $.intermediate_size_per_partition_unpadded: no field of "
            "this format: moec computes it; say the whole layer's "
            "intermediate_size, without padding");
  EXPECT_EQ(
      refused({{"quant_config", {{"scheme", "bf16"}, {"gemm1_alpha", 1.0}}}}),
      "in.json: $.quant_config.gemm1_alpha: no field of this format: "
      "say swiglu_alpha of the layer, or activation_per_expert");
}

TEST(LayerJson, ACapOfTheLogitsIsAboveZero) {
  EXPECT_EQ(accepted({{"router_logit_softcapping", 30}}).routing.softcap, 30.0);
  EXPECT_EQ(refused({{"router_logit_softcapping", 0}}),
            "in.json: $.router_logit_softcapping: expected a number above 0, "
            "or no field for no cap, got the number 0");
}

TEST(LayerJson, NumbersOfANormAndOfTheRouterAreAboveZero) {
  const auto layer = accepted({{"post_expert_norm_eps", 1e-8},
                               {"router_output_multiplier", 0.5},
                               {"norm_topk_prob_eps", 1e-15}});
  EXPECT_EQ(layer.postExpertNorm, 1e-8);
  EXPECT_EQ(layer.routing.logitScale, 0.5);
  EXPECT_EQ(layer.routing.epsilon, 1e-15);
  EXPECT_EQ(accepted({}).postExpertNorm, std::nullopt);
  EXPECT_EQ(refused({{"post_expert_norm_eps", 0}}),
            "in.json: $.post_expert_norm_eps: expected a number of f32 above "
            "0, or no field for no norm, got the number 0");
  // Not 0, but f32 has no such number.
  EXPECT_EQ(refused({{"router_output_multiplier", 1e-60}}),
            "in.json: $.router_output_multiplier: expected a number of f32 "
            "above 0, or no field for 1, got the number 1e-60");
  EXPECT_EQ(refused({{"norm_topk_prob_eps", -1}}),
            "in.json: $.norm_topk_prob_eps: expected a number of f32 above 0, "
            "or no field for the method's, got the number -1");
}

TEST(LayerJson, SinksAreFewerThanTheExpertsOfAToken) {
  const LayerDescription layer =
      accepted({{"num_sink_experts", 1}, {"routing_method", "sigmoid_sinks"}});
  EXPECT_EQ(layer.routing.sinks, 1);
  EXPECT_EQ(layer.experts, 8);
  EXPECT_EQ(layer.topK, 2);
  EXPECT_EQ(refused({{"num_sink_experts", 2}}),
            "in.json: $.num_sink_experts: expected fewer than "
            "top_k = 2, which counts them, got the number 2");
}

TEST(LayerJson, WordsOfVllmForActivationAndMemory) {
  EXPECT_EQ(accepted({{"is_act_and_mul", false}}).activation.function,
            "silu_no_mul");
  EXPECT_EQ(accepted({{"is_act_and_mul", true}}).activation.function, "silu");
  EXPECT_EQ(
      accepted({{"is_act_and_mul", false}, {"activation", "relu2_no_mul"}})
          .activation.function,
      "relu2_no_mul");
  EXPECT_EQ(refused({{"is_act_and_mul", true}, {"activation", "relu2_no_mul"}}),
            "in.json: $.is_act_and_mul: expected false with activation "
            "\"relu2_no_mul\", got true; activations that are multiplied by "
            "up: \"silu\", \"gelu\", \"gelu_tanh\", \"relu\", \"relu2\", "
            "\"swigluoai\", \"swigluoai_uninterleave\", \"swiglustep\", "
            "\"situ\" and \"powlu\"");
  EXPECT_EQ(refused({{"is_act_and_mul", false}, {"activation", "swigluoai"}}),
            "in.json: $.is_act_and_mul: expected true with activation "
            "\"swigluoai\", got false; activations that are so: "
            "\"silu_no_mul\", \"gelu_no_mul\", \"gelu_tanh_no_mul\", "
            "\"relu_no_mul\", \"relu2_no_mul\" and \"clamped_relu2_no_mul\"");
  for (bool disabled : {false, true})
    EXPECT_EQ(accepted({{"disable_inplace", disabled}}).topK, 2);
  EXPECT_EQ(refused({{"disable_inplace", 1}}),
            "in.json: $.disable_inplace: expected true or false, got the "
            "number 1");
}

TEST(LayerJson, SigmoidOfOneExpert) {
  const json sigmoid = {
      {"routing_method", "auto"}, {"scoring_func", "sigmoid"}, {"top_k", 1}};
  EXPECT_EQ(refused(sigmoid),
            "in.json: $.renormalize: expected true (a weight divided by itself "
            "is 1) or false (the sigmoid is the weight) with \"sigmoid\" and "
            "one expert a token, or routing_method = \"llama4\" (the sigmoid "
            "multiplies the input), got nothing");
  // A field that is given holds.
  for (bool renormalize : {false, true}) {
    json said = sigmoid;
    said["renormalize"] = renormalize;
    EXPECT_EQ(accepted(said).routing.renormalize, renormalize);
  }
  json biased = sigmoid;
  biased["e_score_correction_bias"] = true;
  EXPECT_TRUE(accepted(biased).routing.bias);
  json two = sigmoid;
  two["top_k"] = 2;
  EXPECT_EQ(accepted(two).routing.renormalize, true);
}

TEST(LayerJson, GroupsOfExperts) {
  EXPECT_EQ(refused({{"num_expert_group", 3}, {"topk_group", 1}}),
            "in.json: $.num_expert_group: expected a divisor of num_experts = "
            "8, got the number 3");
  EXPECT_EQ(refused({{"num_expert_group", 4}}),
            "in.json: $.topk_group: expected an integer from 1 to "
            "num_expert_group = 4, got nothing");
  EXPECT_EQ(refused({{"topk_group", 2}}),
            "in.json: $.num_expert_group: expected groups beside topk_group, "
            "got nothing");
  EXPECT_EQ(accepted({{"topk_group", 1}}).routing.groups, 0);
}

TEST(LayerJson, TypesAndRanges) {
  EXPECT_EQ(refused({{"num_experts", -1}}),
            "in.json: $.num_experts: expected an integer from 1 to 65536, got "
            "the number -1");
  EXPECT_EQ(refused({{"top_k", 9}}),
            "in.json: $.top_k: expected an integer from 1 to 8, "
            "got the number 9; num_experts is 8");
  EXPECT_EQ(refused({{"in_dtype", nullptr}}),
            "in.json: $.in_dtype: expected bf16, f16 or f32 (or PyTorch's "
            "bfloat16, float16, float32), got nothing");
  EXPECT_EQ(refused({{"has_bias", "yes"}}),
            "in.json: $.has_bias: expected true or false, got the string "
            "\"yes\"");
  EXPECT_EQ(refused({{"swiglu_limit", 0}}),
            "in.json: $.swiglu_limit: expected a number above 0, or no field "
            "for no limit, got the number 0");
  EXPECT_EQ(refused({{"activation", "swish"}}),
            "in.json: $.activation: expected " + listOf(activationNames()) +
                ", got the string \"swish\"");
  EXPECT_EQ(refused({{"activation_situ_beta", 0}}),
            "in.json: $.activation_situ_beta: expected a number above 0, got "
            "the number 0");
  EXPECT_EQ(refused({{"activation", "situ"},
                     {"activation_situ_beta", 4.0},
                     {"swiglu_beta", 1.0}}),
            "in.json: $.swiglu_beta: expected either swiglu_beta or "
            "activation_situ_beta, got both");
  const std::vector<std::string_view> methods = routingNames();
  EXPECT_EQ(refused({{"routing_method", 4}}),
            "in.json: $.routing_method: expected " + listOf(methods) +
                ", got the number 4");
  EXPECT_EQ(
      refused({{"moe_parallel_config", {{"tp_size", 4}, {"tp_rank", 4}}}}),
      "in.json: $.moe_parallel_config.tp_rank: expected an integer from "
      "0 to 3, got the number 4");
  EXPECT_EQ(refused({{"moe_parallel_config", json::array()}}),
            "in.json: $.moe_parallel_config: expected an object, got an "
            "array");
  EXPECT_EQ(refused({{"scoring_func", "softmax"}}),
            "in.json: $.scoring_func: expected either routing_method or "
            "scoring_func, got both; routing_method = \"renormalize\" settles "
            "it");
}

TEST(LayerJson, Quantization) {
  EXPECT_EQ(refused({{"quant_config", "fp4"}}),
            "in.json: $.quant_config: expected " + listOf(schemeNames()) +
                ", got the string \"fp4\"");
  for (nlohmann::json wrong :
       {nlohmann::json({{"scheme", "int4_w4a16"}, {"group_size", 0}}),
        nlohmann::json({{"w1", {{"dtype", "i4"}}}, {"group_size", 32}})})
    EXPECT_EQ(refused({{"quant_config", wrong}}),
              "in.json: $.quant_config.group_size: expected -1 (all) or at "
              "least 1, with \"scheme\", got " +
                  std::string("the number ") + wrong["group_size"].dump());
  EXPECT_EQ(refused({{"quant_config", 4}}),
            "in.json: $.quant_config: expected null, the name of a scheme or "
            "an object with \"scheme\" or with \"a1\", \"a2\", \"w1\" and "
            "\"w2\", got the number 4");
  EXPECT_EQ(refused({{"quant_config", json::object()}}),
            "in.json: $.quant_config.scheme: expected \"scheme\" or "
            "descriptors (\"a1\", \"a2\", \"w1\", \"w2\"), got neither");
  EXPECT_EQ(refused({{"quant_config",
                      {{"scheme", "bf16"}, {"w1", {{"dtype", "i8"}}}}}}),
            "in.json: $.quant_config.scheme: expected a scheme or descriptors "
            "(\"a1\", \"a2\", \"w1\", \"w2\"), got both");
  EXPECT_EQ(refused({{"quant_config", {{"w1", {{"dtype", "fp8"}}}}}}),
            "in.json: $.quant_config.w1.dtype: expected an element type "
            "(bf16, f16, f32, f8E4M3FN, f8E5M2, f6E3M2FN, f6E2M3FN, f4E2M1FN, "
            "f8E8M0FNU, i8 or i4), got the string \"fp8\"");
  EXPECT_EQ(
      refused(
          {{"quant_config",
            {{"w1", {{"dtype", "i8"}, {"shape", {1}}, {"scale", "f32"}}}}}}),
      "in.json: $.quant_config.w1.shape: expected two integers, rows "
      "and columns of one scale (-1 for all), got an array");
  EXPECT_EQ(refused({{"quant_config",
                      {{"w1", {{"dtype", "i8"}, {"scale", "f32"}}}}}}),
            "in.json: $.quant_config.w1.shape: expected \"shape\" and "
            "\"scale\" together (a scale and what it covers) or neither, got "
            "one of them");
}

TEST(LayerJson, Options) {
  ImportOptions options;
  options.layer = 3;
  EXPECT_EQ(refused({}, options),
            "in.json: --layer: expected no --layer with a layer JSON, which "
            "describes one layer");
  options = {};
  options.ignoreFields = {"x"};
  EXPECT_EQ(refused({}, options),
            "in.json: --ignore-field: expected no --ignore-field with a layer "
            "JSON, whose every field counts");
  options = {};
  options.tp = 2;
  EXPECT_EQ(accepted({}, options).parallel.tp, 2);
}

TEST(Formats, ToldApartByContent) {
  EXPECT_TRUE(looksLikeJson(" \n{}"));
  EXPECT_TRUE(looksLikeJson("\xEF\xBB\xBF{}"));
  EXPECT_TRUE(looksLikeJson("[1]"));
  EXPECT_FALSE(looksLikeJson("// a comment\nmoe.layer @a {}"));
  EXPECT_FALSE(looksLikeJson(""));
}

TEST(Formats, WhatIsNoConfiguration) {
  EXPECT_EQ(refusalOf("{}"),
            "in.json: expected an object with \"moec_layer\" (a layer JSON, "
            "docs/reference/layer-json.md) or with \"architectures\" or "
            "\"model_type\" "
            "(a Hugging Face config.json), got one with none of these keys");
  EXPECT_EQ(refusalOf("[1]"), "in.json: expected a JSON object, got an array");
  EXPECT_EQ(refusalOf("{\"moec_layer\": 1, \"moec_layer\": 1}"),
            "in.json: line 1, column 19: expected each key once in an object, "
            "got \"moec_layer\" twice");
  EXPECT_EQ(refusalOf("{\"moec_layer\": 1,"),
            "in.json: line 1, column 18: expected JSON, got a text that is "
            "not: syntax error while parsing object key - unexpected end of "
            "input; expected string literal");
  EXPECT_EQ(refusalOf("{\"moec_layer\": 1e999}"),
            "in.json: line 1, column 16: expected a number that a double "
            "holds, got 1e999");
}

TEST(Formats, DeepNesting) {
  for (size_t depth : {size_t(100), size_t(100000), size_t(1000000)}) {
    std::string text = "{\"moec_layer\": " + std::string(depth, '[') +
                       std::string(depth, ']') + "}";
    EXPECT_EQ(refusalOf(text),
              "in.json: line 1, column 79: expected at most 64 levels of "
              "nesting, got more");
    std::string open;
    for (size_t i = 0; i < depth && open.size() < (size_t(1) << 21); ++i)
      open += "{\"a\":";
    EXPECT_NE(refusalOf(open), "");
  }
}

TEST(Formats, HugeText) {
  std::string text = "{\"moec_layer\": 1, \"name\": \"" +
                     std::string(size_t(17) << 20, 'x') + "\"}";
  EXPECT_EQ(refusalOf(text), "in.json: expected at most 16777216 bytes of "
                             "JSON, got 17825821");
  EXPECT_LT(refused({{"activation", std::string(1 << 20, 'y')}}).size(), 400u);
}

} // namespace
