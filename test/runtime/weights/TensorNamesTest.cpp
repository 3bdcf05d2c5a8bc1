//===- TensorNamesTest.cpp - names of families' checkpoints ---------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/weights/TensorNames.h"

#include <gtest/gtest.h>

using namespace moec::weights;

namespace {

struct Row {
  const char *name;
  int64_t layer, expert;
  bool shared;
  Part part;
  Kind kind;
};

constexpr int64_t kAll = kAllExperts;

const Row kRows[] = {
    // Mixtral, MiniMax-M2, Phi-3.5-MoE, Kimi-Linear
    {"model.layers.31.block_sparse_moe.experts.7.w1.weight", 31, 7, false,
     Part::Gate, Kind::Weight},
    {"model.layers.0.block_sparse_moe.experts.7.w3.weight_scale_inv", 0, 7,
     false, Part::Up, Kind::Scale},
    {"model.layers.0.block_sparse_moe.e_score_correction_bias", 0, kAll, false,
     Part::Routing, Kind::RoutingBias},
    // Qwen, DeepSeek, GLM, OLMoE, Ernie
    {"model.layers.3.mlp.experts.127.down_proj.weight", 3, 127, false,
     Part::Down, Kind::Weight},
    {"model.layers.3.mlp.shared_experts.up_proj.weight", 3, kAll, true,
     Part::Up, Kind::Weight},
    {"model.layers.3.mlp.shared_expert.gate_proj.weight", 3, kAll, true,
     Part::Gate, Kind::Weight},
    {"model.layers.3.mlp.gate.e_score_correction_bias", 3, kAll, false,
     Part::Routing, Kind::RoutingBias},
    {"model.layers.3.mlp.moe_statics.e_score_correction_bias", 3, kAll, false,
     Part::Routing, Kind::RoutingBias},
    // DeepSeek-V4
    {"layers.2.ffn.experts.9.w2.scale", 2, 9, false, Part::Down, Kind::Scale},
    {"layers.2.ffn.gate.bias", 2, kAll, false, Part::Routing,
     Kind::RoutingBias},
    {"layers.2.ffn.gate.tid2eid", 2, kAll, false, Part::Routing,
     Kind::HashTable},
    // compressed-tensors, ModelOpt, GPTQ
    {"model.layers.3.mlp.experts.1.up_proj.weight_packed", 3, 1, false,
     Part::Up, Kind::Packed},
    {"model.layers.3.mlp.experts.1.up_proj.weight_global_scale", 3, 1, false,
     Part::Up, Kind::SecondDivisor},
    {"model.layers.3.mlp.experts.1.up_proj.input_global_scale", 3, 1, false,
     Part::Up, Kind::InputDivisor},
    {"model.layers.3.mlp.experts.1.up_proj.weight_scale_2", 3, 1, false,
     Part::Up, Kind::SecondScale},
    {"model.layers.3.mlp.experts.1.up_proj.qweight", 3, 1, false, Part::Up,
     Kind::ColumnsPacked},
    {"model.layers.3.mlp.experts.1.up_proj.g_idx", 3, 1, false, Part::Up,
     Kind::GroupIndex},
    // gpt-oss, Llama 4, Qwen3.5, Gemma 4
    {"model.layers.3.mlp.experts.gate_up_proj_blocks", 3, kAll, false,
     Part::GateUp, Kind::Packed},
    {"model.layers.3.mlp.experts.gate_up_proj_bias", 3, kAll, false,
     Part::GateUp, Kind::Bias},
    {"model.layers.3.mlp.experts.down_proj_scales", 3, kAll, false, Part::Down,
     Kind::Scale},
    {"language_model.model.layers.5.feed_forward.experts.gate_up_proj", 5, kAll,
     false, Part::GateUp, Kind::Weight},
    {"language_model.model.layers.5.feed_forward.shared_expert.down_proj."
     "weight",
     5, kAll, true, Part::Down, Kind::Weight},
    {"model.language_model.layers.5.router.per_expert_scale", 5, kAll, false,
     Part::Routing, Kind::ExpertScale},
    // Muse Spark
    {"model.language_model.layers.5.mlp.experts.post_expert_norm.weight", 5,
     kAll, false, Part::Routing, Kind::PostExpertNorm},
    // Inkling
    {"model.llm.layers.5.mlp.experts.w13_weight", 5, kAll, false,
     Part::GateUpPairs, Kind::Weight},
    {"model.llm.layers.5.mlp.experts.w13_weight_scale", 5, kAll, false,
     Part::GateUpPairs, Kind::Scale},
    {"model.llm.layers.5.mlp.experts.w2_weight", 5, kAll, false, Part::Down,
     Kind::Weight},
    {"model.llm.layers.5.mlp.gate.bias", 5, kAll, false, Part::Routing,
     Kind::RoutingBias},
    {"model.llm.layers.5.mlp.gate.global_scale", 5, kAll, false, Part::Routing,
     Kind::ExpertScale},
    {"model.llm.layers.5.mlp.shared_experts.shared_w13_weight", 5, kAll, true,
     Part::GateUpPairs, Kind::Weight},
    {"model.llm.layers.5.mlp.shared_experts.shared_w2_weight", 5, kAll, true,
     Part::Down, Kind::Weight},
    {"model.layers.5.mlp.shared_experts.gate_proj", 5, kAll, true, Part::Gate,
     Kind::Weight},
    // Intern-S2-Mobius, whose layers share banks of experts
    {"model.language_model.meta_mlp.3.experts.gate_up_proj", 3, kAll, false,
     Part::GateUp, Kind::Weight},
    // Aria
    {"language_model.model.layers.5.mlp.experts.fc1.weight", 5, kAll, false,
     Part::GateUp, Kind::Weight},
    {"language_model.model.layers.5.mlp.experts.fc2.weight", 5, kAll, false,
     Part::Down, Kind::Weight},
    // DBRX, Granite, Step3, LFM2, Nemotron-H, Jamba, HunYuan
    {"transformer.blocks.4.ffn.experts.mlp.v1", 4, kAll, false, Part::Up,
     Kind::Weight},
    {"model.layers.4.block_sparse_moe.output_linear.weight", 4, kAll, false,
     Part::Down, Kind::Weight},
    {"model.layers.4.shared_mlp.input_linear.weight", 4, kAll, true,
     Part::GateUp, Kind::Weight},
    {"model.layers.4.moe.gate_proj.weight", 4, kAll, false, Part::Gate,
     Kind::Weight},
    {"model.layers.4.moe.router_bias", 4, kAll, false, Part::Routing,
     Kind::RoutingBias},
    {"model.layers.4.feed_forward.experts.3.w2.weight", 4, 3, false, Part::Down,
     Kind::Weight},
    {"model.layers.4.feed_forward.expert_bias", 4, kAll, false, Part::Routing,
     Kind::RoutingBias},
    {"backbone.layers.4.mixer.experts.3.up_proj.weight", 4, 3, false, Part::Up,
     Kind::Weight},
    {"model.layers.4.mlp.shared_mlp.down_proj.weight", 4, kAll, true,
     Part::Down, Kind::Weight},
};

const char *const kOthers[] = {
    "model.layers.3.mlp.gate.weight",
    "model.layers.3.mlp.gate_proj.weight",
    "model.layers.3.mlp.router.bias",
    // As engines call their own fused weights, whose rows do not alternate.
    "model.layers.3.mlp.experts.w13_weight",
    "model.layers.3.llm.experts.w13_weight",
    "model.layers.3.mlp.shared_experts.shared_w13_weight",
    // Only the parts of shared experts begin so.
    "model.llm.layers.3.mlp.experts.shared_w13_weight",
    // A dense MLP's factor.
    "model.llm.layers.3.mlp.global_scale",
    // Other modules than Aria's, whose rows come first.
    "model.layers.3.mlp.experts.1.fc1.weight",
    "model.layers.3.mlp.experts.fc1",
    "model.layers.3.moe.fc1.weight",
    "model.layers.3.mlp.experts.mlp.fc1.weight",
    "model.layers.3.mlp.shared_experts.fc1.weight",
    "model.layers.3.mlp.shared_expert_gate.weight",
    "model.layers.3.mlp.experts.1.up_proj.weight_shape",
    "model.layers.3.mlp.experts.up_proj2.weight",
    "model.layers.3.residual_mlp.w1.weight",
    "model.layers.99999999999999999999.mlp.experts.0.up_proj.weight",
    "model.layers.-1.mlp.experts.0.up_proj.weight",
    "model.mtp.layers.0.mlp.experts.0.up_proj.weight",
    "visual.blocks.0.mlp.experts.0.up_proj.weight",
    "model.layers.3",
    "model.layers",
    "layers.3.experts.",
    "",
    "...",
};

} // namespace

TEST(TensorNames, Families) {
  for (const Row &row : kRows) {
    const std::optional<TensorName> read = readTensorName(row.name);
    ASSERT_TRUE(read) << row.name;
    EXPECT_EQ(read->layer, row.layer) << row.name;
    EXPECT_EQ(read->role.expert, row.expert) << row.name;
    EXPECT_EQ(read->role.shared, row.shared) << row.name;
    EXPECT_EQ(read->role.part, row.part) << row.name;
    EXPECT_EQ(read->role.kind, row.kind) << row.name;
  }
}

TEST(TensorNames, Others) {
  for (const char *name : kOthers)
    EXPECT_FALSE(readTensorName(name)) << name;
}

TEST(TensorNames, Places) {
  struct PlaceRow {
    const char *name;
    Place place;
    bool irrelevant;
  };
  const PlaceRow rows[] = {
      {"model.layers.3.mlp.gate.weight", Place::Router, true},
      {"model.layers.3.mlp.router.bias", Place::Router, true},
      {"model.layers.3.mlp.gate.wg.weight", Place::Router, true},
      {"model.layers.3.mlp.router.gate.weight", Place::Router, true},
      {"model.layers.3.router.proj.weight", Place::Router, true},
      {"model.layers.3.router.scale", Place::Router, true},
      {"model.layers.3.block_sparse_moe.gate.weight", Place::Router, true},
      {"model.layers.3.mlp.router.temperature", Place::Router, false},
      {"model.layers.3.mlp.shared_expert_gate.weight", Place::SharedGate,
       false},
      {"model.layers.3.mlp.experts.1.up_proj.weight_shape", Place::Experts,
       true},
      {"model.layers.3.mlp.experts.1.up_proj.pre_quant_scale", Place::Experts,
       false},
      {"model.layers.3.mlp.experts.up_proj2.weight", Place::Experts, false},
      {"model.layers.3.moe.up_proj.weight.absmax", Place::Experts, false},
      {"model.layers.3.mlp.shared_experts.norm.weight", Place::SharedExperts,
       false},
  };
  for (const PlaceRow &row : rows) {
    const std::optional<TensorPlace> read = readTensorPlace(row.name);
    ASSERT_TRUE(read) << row.name;
    EXPECT_EQ(read->layer, 3) << row.name;
    EXPECT_EQ(read->place, row.place) << row.name;
    EXPECT_EQ(!read->irrelevant.empty(), row.irrelevant) << row.name;
  }
  for (const Row &row : kRows)
    EXPECT_FALSE(readTensorPlace(row.name)) << row.name << " has a role";
  for (const char *name :
       {"model.layers.3.mlp.gate_proj.weight",
        "model.layers.3.residual_mlp.w1.weight",
        "model.layers.3.self_attn.gate.weight", "model.layers.3.norm.weight",
        "model.mtp.layers.0.mlp.experts.0.up_proj.odd", "lm_head.weight"})
    EXPECT_FALSE(readTensorPlace(name)) << name;

  EXPECT_TRUE(hasWord("a.b.input_scale", "input_scale"));
  EXPECT_TRUE(hasWord("a.experts.gate_up_proj_bias", "bias"));
  EXPECT_TRUE(hasWord("a.shared_expert.w1.weight", "shared_expert"));
  EXPECT_FALSE(hasWord("a.b.input_scale", "scale_2"));
  EXPECT_FALSE(hasWord("a.b.unbias", "bias"));
}

TEST(TensorNames, BiasesOfRouters) {
  EXPECT_TRUE(readTensorName("layers.0.mlp.gate.bias")->mayBeOfRouter);
  EXPECT_FALSE(readTensorName("layers.0.ffn.gate.bias")->mayBeOfRouter);
  EXPECT_FALSE(readTensorName("layers.0.mlp.gate.e_score_correction_bias")
                   ->mayBeOfRouter);
}

TEST(TensorNames, Dimensions) {
  EXPECT_TRUE(readTensorName("h.0.ffn.experts.mlp.w2")->transposed);
  EXPECT_FALSE(readTensorName("h.0.ffn.experts.mlp.w1")->transposed);
  EXPECT_TRUE(readTensorName("layers.0.mlp.experts.fc1.weight")->transposed);
  EXPECT_FALSE(readTensorName("layers.0.mlp.experts.fc1.weight")->bare);
  EXPECT_TRUE(readTensorName("layers.0.mlp.experts.down_proj")->bare);
  EXPECT_FALSE(readTensorName("layers.0.mlp.experts.down_proj.weight")->bare);
}

TEST(TensorNames, PairsAreReadBack) {
  TensorRole role = {true, kAllExperts, Part::GateUpPairs, Kind::Weight};
  EXPECT_EQ(namesOf(role),
            std::vector<std::string>{"shared_experts.shared_w13_weight"});
  role.shared = false;
  EXPECT_EQ(namesOf(role), std::vector<std::string>{"experts.w13_weight"});
  TensorRole one = role;
  one.expert = 0;
  EXPECT_TRUE(namesOf(one).empty());
  for (const KindText &kind : allKinds()) {
    TensorRole each = role;
    each.kind = kind.kind;
    for (const std::string &name : namesOf(each)) {
      const auto read = readTensorName("model.llm.layers.3.mlp." + name);
      ASSERT_TRUE(read) << name;
      EXPECT_TRUE(read->role == each) << name;
    }
  }
}

TEST(TensorNames, EachSpellingIsReadBack) {
  size_t count = 0;
  for (const KindText &kind : allKinds())
    for (const Part part :
         {Part::Gate, Part::Up, Part::GateUp, Part::Down, Part::Routing})
      for (const bool shared : {false, true})
        for (const int64_t expert : {int64_t(5), kAllExperts}) {
          const bool isOfLayer = kind.kind == Kind::RoutingBias ||
                                 kind.kind == Kind::ExpertScale ||
                                 kind.kind == Kind::PostExpertNorm ||
                                 kind.kind == Kind::HashTable;
          if (isOfLayer != (part == Part::Routing) ||
              (isOfLayer && (shared || expert != kAllExperts)))
            continue;
          const TensorRole role = {shared, expert, part, kind.kind};
          const std::vector<std::string> names = namesOf(role);
          EXPECT_FALSE(names.empty()) << kind.name;
          for (std::string name : names) {
            if (const size_t at = name.find("{expert}");
                at != std::string::npos)
              name.replace(at, 8, "5");
            const std::optional<TensorName> read =
                readTensorName("model.layers.3.mlp." + name);
            ASSERT_TRUE(read) << name;
            EXPECT_TRUE(read->role == role) << name;
            ++count;
          }
        }
  EXPECT_GT(count, 300u);
}
