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
    "({\"moec_layer\": 1, \"num_experts\": ..., \"top_k\": ..., "
    "\"hidden_size\": ..., \"intermediate_size\": ..., \"in_dtype\": ...}, see "
    "docs/reference/layer-json.md)";

/// A refusal that lists all that is known, without the list.
std::string withoutAdvice(std::string message) {
  const size_t end = message.find("; --as");
  EXPECT_NE(end, std::string::npos) << message;
  EXPECT_EQ(message.substr(end + 2),
            std::string("--as=FAMILY reads a config whose keys are those of a "
                        "known family (`moec list families`); ") +
                kDirect);
  return message.substr(0, end);
}

TEST(HuggingFace, Qwen3WithNormTopkProb) {
  LayerDescription layer =
      accepted(modelText("qwen3-30b-a3b"), {}, "a/qwen3-30b-a3b.json");
  EXPECT_EQ(layer.name, "qwen3-30b-a3b");
  EXPECT_EQ(layer.experts, 128);
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
  EXPECT_EQ(withoutAdvice(
                refusalOf(changed("mixtral-8x7b", {{"architectures", nullptr},
                                                   {"model_type", "gptneo"}}))),
            "in.json: $.model_type: unknown model type \"gptneo\"");
}

TEST(HuggingFace, UnknownArchitecture) {
  const auto named = [](const char *name) {
    return withoutAdvice(
        refusalOf(changed("mixtral-8x7b", {{"architectures", {name}}})));
  };
  EXPECT_EQ(named("BambaForSpeech"),
            "in.json: $.architectures: unknown architecture "
            "\"BambaForSpeech\"");
  EXPECT_EQ(named("MixtralForCasualLM"),
            "in.json: $.architectures: unknown architecture "
            "\"MixtralForCasualLM\" (did you mean MixtralForCausalLM?)");
  EXPECT_EQ(named(std::string(200, 'a').c_str()).substr(0, 60),
            "in.json: $.architectures: unknown architecture \"aaaaaaaaaaaa");
  EXPECT_EQ(refusalOf(changed("mixtral-8x7b", {{"architectures", "Mixtral"}})),
            "in.json: $.architectures: expected an array of names, got the "
            "string \"Mixtral\"");
  EXPECT_EQ(refusalOf(changed("mixtral-8x7b", {{"architectures", {"A", "B"}}})),
            "in.json: $.architectures: expected one architecture, got 2");
}

TEST(HuggingFace, AModelWithoutExpertsIsNone) {
  const json llama = {{"architectures", {"LlamaForCausalLM"}},
                      {"model_type", "llama"},
                      {"hidden_size", 4096},
                      {"num_hidden_layers", 32}};
  EXPECT_EQ(refusalOf(llama.dump()),
            std::string("in.json: $.architectures: expected a model with "
                        "experts, got the string \"LlamaForCausalLM\", and no "
                        "key of this config speaks of experts; ") +
                kDirect);
}

TEST(HuggingFace, NamesThatDisagree) {
  EXPECT_EQ(refusalOf(changed("mixtral-8x7b", {{"model_type", "olmoe"}})),
            "in.json: $.model_type: expected a model type of "
            "MixtralForCausalLM (mixtral minimax), got the string \"olmoe\"");
  EXPECT_EQ(refusalOf(changed("minimax-m3",
                              {{"text_config", {{"model_type", "gpt_oss"}}}})),
            "in.json: $.text_config.model_type: expected a model type of "
            "MiniMaxM3SparseForConditionalGeneration (minimax_m3_vl minimax_m3 "
            "minimax_m3_text minimax_m3_vl_text), got the string \"gpt_oss\"");
}

TEST(HuggingFace, AMistypedKeyIsNamed) {
  json config = json::parse(modelText("qwen3-30b-a3b"));
  config["num_expert"] = config["num_experts"];
  config.erase("num_experts");
  EXPECT_EQ(refusalOf(config.dump()),
            "in.json: $.num_experts: expected an integer from 1 to 65536, got "
            "nothing; did you mean it by \"num_expert\"?");
}

TEST(HuggingFace, SuspiciousKeysAreNamed) {
  for (const char *key :
       {"num_shared_experts", "moe_layer_freq", "Router_Bias", "gate_scale",
        "top_k", "topk_group", "shared_mlp", "quant_bits", "logit_scaling",
        "activation_fn", "swiglu_limit"}) {
    std::string text = changed("mixtral-8x7b", {{key, 1}});
    EXPECT_EQ(refusalOf(text),
              std::string("in.json: $.") + key +
                  ": MixtralForCausalLM has no such key that moec supports, "
                  "and its name suggests that it may change the layer; if it "
                  "does not, pass --ignore-field=" +
                  key);
    ImportOptions options;
    options.ignoreFields = {key};
    EXPECT_EQ(refusalOf(text, options), "");
  }
}

TEST(HuggingFace, AFieldToIgnoreIsAKeyOfTheConfig) {
  const std::string text =
      changed("mixtral-8x7b", {{"extra", {{"list", {{{"moe_deep", 1}}}}}}});
  ImportOptions options;
  options.ignoreFields = {"moe_deep"};
  EXPECT_EQ(refusalOf(text, options), "");
  options.ignoreFields = {"moe_deeper"};
  EXPECT_EQ(refusalOf(text, options),
            "in.json: --ignore-field: the config has no key 'moe_deeper'; did "
            "you mean moe_deep? expected one of its keys");
  options.ignoreFields = {"zzz"};
  EXPECT_EQ(refusalOf(text, options),
            "in.json: --ignore-field: the config has no key 'zzz'; expected "
            "one of its keys");
}

/// To ignore what the layer depends on would be another layer, or no change.
TEST(HuggingFace, AFieldToIgnoreIsNoneThatMoecReads) {
  const auto said = [](const std::string &field,
                       const json &changes = json::object(),
                       const std::string &model = "mixtral-8x7b") {
    ImportOptions options;
    options.ignoreFields = {field};
    return refusalOf(changed(model, changes), options);
  };
  const auto read = [](const std::string &what) {
    return "in.json: --ignore-field: moec reads " + what +
           ", so that the layer depends on it; accepted: keys that moec does "
           "not read";
  };
  EXPECT_EQ(said("num_experts_per_tok"), read("'num_experts_per_tok', 2"));
  EXPECT_EQ(said("hidden_act"), read("'hidden_act', \"silu\""));
  EXPECT_EQ(said("torch_dtype"), read("'torch_dtype', \"bfloat16\""));
  EXPECT_EQ(said("num_hidden_layers"), read("'num_hidden_layers', 32"));
  EXPECT_EQ(said("n_shared_experts", json::object(), "deepseek-v3"),
            read("'n_shared_experts', 1"));
  EXPECT_EQ(said("first_k_dense_replace", json::object(), "deepseek-v3"),
            read("'first_k_dense_replace', 3"));
  EXPECT_EQ(said("text_config", json::object(), "qwen3.5-35b-a3b"),
            read("'text_config'"));
  EXPECT_EQ(said("model_type"),
            "in.json: --ignore-field: 'model_type' names the family of the "
            "model; accepted: --as=NAME for another");
  EXPECT_EQ(said("vocab_size"), "") << "the layer does not depend on it";
  EXPECT_EQ(said("quantization_config", json::object(), "deepseek-v3"),
            "in.json: --ignore-field: 'quantization_config' sets the scheme of "
            "the experts' weights; accepted: --scheme=NAME in place of "
            "--ignore-field");
}

TEST(HuggingFace, OtherKeysAreIgnored) {
  // The "act" in "factor", and a time that is no limit of activations.
  EXPECT_EQ(refusalOf(changed("mixtral-8x7b", {{"mlp_alpha_factor", 2},
                                               {"index_topk_blocks", 16},
                                               {"time_step_limit", {0, 1}}})),
            "");
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
  EXPECT_EQ(with("hidden_act", "relu"), "");
  EXPECT_EQ(with("hidden_act", "mish"),
            "in.json: $.hidden_act: expected \"silu\", \"swish\", \"gelu\", "
            "\"gelu_new\", \"gelu_tanh\", \"gelu_pytorch_tanh\", "
            "\"situ\", \"relu\" or \"relu2\", got the string \"mish\"");
  EXPECT_EQ(with("mlp_only_layers", {1, -2}),
            "in.json: $.mlp_only_layers[1]: expected an integer from 0 to "
            "65536, got the number -2");
  EXPECT_EQ(with("torch_dtype", "float8_e4m3fn"),
            "in.json: $.torch_dtype: expected bf16, f16 or f32 (or PyTorch's "
            "bfloat16, float16, float32), got the string \"float8_e4m3fn\"");
  EXPECT_EQ(with("dtype", "float16"),
            "in.json: $.dtype: expected the value of torch_dtype, the string "
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
  options.logitsDtype = "float32";
  EXPECT_EQ(accepted(modelText("qwen3-30b-a3b"), options).logitsType, "f32");
  options.logitsDtype = "f16";
  EXPECT_EQ(accepted(modelText("deepseek-v3"), options).logitsType, "f16");

  // The scheme says how weights are stored, the type what x is.
  options = {};
  options.scheme = "f32";
  options.dtype = "bf16";
  EXPECT_EQ(accepted(modelText("qwen3-30b-a3b"), options).inputType, "bf16");

  for (const char *word : {"f32", "fast"}) {
    options = {};
    options.scheme = "fp8_block";
    options.accumulate = word;
    EXPECT_EQ(accepted(modelText("qwen3-30b-a3b"), options).accumulate, word);
  }

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

TEST(HuggingFace, RanksUpToTheirLimit) {
  ImportOptions options;
  options.dp = 65536;
  EXPECT_EQ(accepted(modelText("qwen3-30b-a3b"), options).parallel.dp, 65536);
  options.allRanks = true;
  EXPECT_TRUE(accepted(modelText("qwen3-30b-a3b"), options).parallel.allRanks);
  options.tp = 2;
  EXPECT_EQ(refusalOf(modelText("qwen3-30b-a3b"), options),
            "in.json: --all-ranks: expected at most 65536 ranks (dp * pcp * "
            "tp), got 131072");
  // A package of all ranks is described from the first.
  options = {};
  options.allRanks = true;
  Result<LayerDescription> layer = readDescription(
      layerText({{"moe_parallel_config", {{"tp_size", 2}, {"tp_rank", 1}}}}),
      "in.json", options);
  ASSERT_TRUE(layer) << layer.error().message;
  EXPECT_EQ(layer->parallel.rank(), 0);
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

TEST(HuggingFace, OptionsOfSeveralRanksOnOne) {
  const std::string text = modelText("qwen3-30b-a3b");
  const auto given = [](std::string_view name) {
    ImportOptions options;
    options.ep = name == "ep";
    options.allRanks = name == "all-ranks";
    if (name == "all-to-all")
      options.allToAll = "gather_scatter";
    return options;
  };
  for (const std::string_view name : {"ep", "all-ranks", "all-to-all"}) {
    EXPECT_EQ(refusalOf(text, given(name)),
              fmt::format("in.json: --{}: expected several ranks, got a layer "
                          "on one; accepted: with --tp, --pcp or --dp",
                          name));
    // A script gives the sizes that it has, which may be 1.
    for (const auto size :
         {&ImportOptions::tp, &ImportOptions::pcp, &ImportOptions::dp}) {
      ImportOptions options = given(name);
      options.*size = 1;
      EXPECT_EQ(accepted(text, options).parallel.ranks(), 1) << name;
    }
    EXPECT_EQ(refusalOf(layerText({{"moe_parallel_config", {{"tp_size", 2}}}}),
                        given(name)),
              "");
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
  EXPECT_EQ(
      refusalOf(text, options),
      "in.json: --rank=1: expected 0, since the layer has one rank; accepted: "
      "--tp, --pcp or --dp for more ranks");
  options = {};
  options.weightsDtype = "bf16";
  EXPECT_EQ(refusalOf(text, options),
            "in.json: --weights-dtype=bf16: scheme bf16 quantizes no weights; "
            "accepted: --scheme=NAME with a scheme that does (`moec list "
            "schemes`)");
  options = {};
  options.tp = 4;
  options.sp = 2;
  EXPECT_EQ(refusalOf(text, options),
            "in.json: --sp=2: expected 1 or the ranks of tp, 4");
  options = {};
  options.placement = "scattered";
  EXPECT_EQ(refusalOf(text, options),
            "in.json: --placement=scattered: expected linear or round_robin");
  for (const char *placement : {"linear", "round_robin"}) {
    options = {};
    options.tp = 2;
    options.placement = placement;
    EXPECT_EQ(refusalOf(text, options),
              fmt::format("in.json: --placement={}: expected --ep, without "
                          "which all ranks hold all experts",
                          placement));
  }
  options = {};
  options.scheme = "fp4";
  EXPECT_EQ(refusalOf(text, options),
            "in.json: --scheme=fp4: expected one of " +
                catalog::names(catalog::kSchemes));
  options = {};
  options.logitsDtype = "fp8";
  EXPECT_EQ(refusalOf(text, options),
            "in.json: --logits-dtype=fp8: expected bf16, f16 or f32");
  options = {};
  options.dtype = "fp8";
  EXPECT_EQ(refusalOf(text, options),
            "in.json: --dtype=fp8: expected bf16, f16 or f32");
}

} // namespace
