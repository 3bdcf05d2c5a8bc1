//===- TargetsTest.cpp - what each cell is measured against ---------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The file of the tree, files that are wrong, and the words of --cells.
//
//===----------------------------------------------------------------------===//

#include "bench/program/Targets.h"

#include <nlohmann/json.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

using namespace moec;
using namespace moec::bench;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

Result<Targets> ofTheTree() {
  const char *root = std::getenv("MOEC_SOURCE_DIR");
  std::ifstream file(std::string(root ? root : ".") +
                     "/bench/data/targets.json");
  return Targets::parse(std::string(std::istreambuf_iterator<char>(file), {}),
                        "targets.json");
}

json layer(int64_t experts, int64_t topK, int64_t hidden, int64_t intermediate,
           int64_t local) {
  return {{"num_experts", experts},
          {"top_k", topK},
          {"hidden_size", hidden},
          {"intermediate_size_per_partition", intermediate},
          {"local_experts", {{"begin", 0}, {"count", local}}}};
}

TEST(BenchTargets, ShapesAreFoundByTheirNumbers) {
  Result<Targets> targets = ofTheTree();
  ASSERT_TRUE(targets) << targets.error().message;
  EXPECT_THAT(targets->gpus(), ElementsAre("h100_sxm", "h200_sxm"));
  EXPECT_TRUE(targets->has("h200_sxm"));
  EXPECT_FALSE(targets->has("h20"));
  EXPECT_FALSE(targets->has(""));
  const Shape *shape = targets->shapeOf(layer(256, 8, 7168, 2048, 32));
  ASSERT_NE(shape, nullptr);
  EXPECT_EQ(shape->name, "deepseek-v3-ep8");
  EXPECT_EQ(shape->tokens.back(), 8192);
  shape = targets->shapeOf(layer(256, 8, 7168, 256, 256));
  ASSERT_NE(shape, nullptr);
  EXPECT_EQ(shape->name, "deepseek-v3-tp8");
  EXPECT_EQ(shape->tokens.back(), 16384);
  EXPECT_EQ(targets->shapeOf(layer(256, 8, 7168, 2048, 256)), nullptr);
  EXPECT_EQ(targets->shapeOf(json::object()), nullptr);
}

TEST(BenchTargets, CellsHaveTargets) {
  Result<Targets> targets = ofTheTree();
  ASSERT_TRUE(targets) << targets.error().message;
  // The table's 1.12 is more than the best of today: 1.05, and 2 % of it.
  const Target *cell = targets->find("h100_sxm", "mixtral-8x7b", "bf16", 8);
  ASSERT_NE(cell, nullptr);
  ASSERT_TRUE(cell->best);
  EXPECT_EQ(cell->best->name, "vllm_h200cfg");
  EXPECT_EQ(cell->best->version, "017e9f4");
  EXPECT_DOUBLE_EQ(cell->best->ratio, 1.05);
  EXPECT_DOUBLE_EQ(cell->target, 1.05);
  EXPECT_DOUBLE_EQ(cell->limit, 1.071);
  // The table's number is the smaller one.
  cell = targets->find("h100_sxm", "qwen3-30b-a3b", "fp8_block", 1);
  ASSERT_NE(cell, nullptr);
  ASSERT_TRUE(cell->best);
  EXPECT_DOUBLE_EQ(cell->best->us, 30.8);
  EXPECT_DOUBLE_EQ(cell->target, 1.7);
  EXPECT_DOUBLE_EQ(cell->limit, 1.7);
  EXPECT_EQ(targets->find("h100_sxm", "mixtral-8x7b", "bf16", 16384), nullptr);
  EXPECT_EQ(targets->find("h100_sxm", "mixtral-8x7b", "int4", 8), nullptr);
  EXPECT_EQ(targets->find("", "mixtral-8x7b", "bf16", 8), nullptr);
  EXPECT_EQ(targets->find("h200_sxm", "mixtral-8x7b", "bf16", 16384), nullptr);
}

TEST(BenchTargets, EachGpuHasItsOwn) {
  Result<Targets> targets = ofTheTree();
  ASSERT_TRUE(targets) << targets.error().message;
  // The table's 1.3 on the H100, the best of today on the H200.
  const Target *cell =
      targets->find("h100_sxm", "qwen3-30b-a3b", "int4_w4a16", 8);
  ASSERT_NE(cell, nullptr);
  ASSERT_TRUE(cell->best);
  EXPECT_EQ(cell->best->version, "0.1.10");
  EXPECT_DOUBLE_EQ(cell->target, 1.3);
  cell = targets->find("h200_sxm", "qwen3-30b-a3b", "int4_w4a16", 8);
  ASSERT_NE(cell, nullptr);
  ASSERT_TRUE(cell->best);
  EXPECT_EQ(cell->best->version, "0.1.19");
  EXPECT_DOUBLE_EQ(cell->target, 2.362);
}

TEST(BenchTargets, AnH200IsComparedWithWhatRanOnAnH200) {
  Result<Targets> targets = ofTheTree();
  ASSERT_TRUE(targets) << targets.error().message;
  const Target *cell =
      targets->find("h200_sxm", "mixtral-8x7b", "fp8_block", 8192);
  ASSERT_NE(cell, nullptr);
  ASSERT_TRUE(cell->best);
  EXPECT_EQ(cell->best->name, "dg");
  EXPECT_EQ(cell->best->version, "2.6.1");
}

TEST(BenchTargets, CellsThatNoOtherSystemWasMeasuredInHaveTheTable) {
  Result<Targets> targets = ofTheTree();
  ASSERT_TRUE(targets) << targets.error().message;
  for (const char *gpu : {"h100_sxm", "h200_sxm"}) {
    const Target *cell =
        targets->find(gpu, "qwen3-30b-a3b", "nvfp4_w4a16", 2048);
    ASSERT_NE(cell, nullptr) << gpu;
    EXPECT_FALSE(cell->best) << gpu;
    EXPECT_DOUBLE_EQ(cell->target, 1.5) << gpu;
    EXPECT_DOUBLE_EQ(cell->limit, 1.5) << gpu;
  }
}

TEST(BenchTargets, CellsAreHeldAgainstTheirTargets) {
  Target target;
  target.target = 1.05, target.limit = 1.07;
  EXPECT_EQ(json(comparisonOf(target, 1.07)),
            (json{{"target", 1.05}, {"limit", 1.07}, {"met", true}}));
  EXPECT_EQ(comparisonOf(target, 1.08)["met"], false);
  target.best = Peer{"a peer", "1.2", 30, 1.25};
  EXPECT_EQ(json(comparisonOf(target, 2.5)), (json{{"peer", "a peer"},
                                                   {"version", "1.2"},
                                                   {"us", 30.0},
                                                   {"ratio", 1.25},
                                                   {"ours_over_theirs", 2.0},
                                                   {"target", 1.05},
                                                   {"limit", 1.07},
                                                   {"met", false}}));
}

TEST(BenchTargets, WrongFilesAreRefused) {
  Result<Targets> targets = Targets::parse("[]", "t.json");
  ASSERT_FALSE(targets);
  EXPECT_EQ(targets.error().message,
            "t.json: expected a JSON object, got an array");
  targets = Targets::parse("{\"moec_targets\": 1}", "t.json");
  ASSERT_FALSE(targets);
  EXPECT_EQ(targets.error().message,
            "t.json: expected a JSON object with \"moec_targets\": 2, as "
            "bench/run/targets.py writes it");
  targets = Targets::parse(
      R"({"moec_targets": 2, "gpus": ["g"], "shapes": [{"shape": 7}]})",
      "t.json");
  ASSERT_FALSE(targets);
  EXPECT_THAT(targets.error().message,
              HasSubstr("t.json: expected its fields ("));
}

TEST(BenchTargets, WordsOfCells) {
  EXPECT_TRUE(selects("*", "a", "bf16"));
  EXPECT_TRUE(selects("a", "a", "bf16"));
  EXPECT_TRUE(selects("bf16", "a", "bf16"));
  EXPECT_TRUE(selects("a/bf16", "a", "bf16"));
  EXPECT_FALSE(selects("a/fp8_block", "a", "bf16"));
  EXPECT_FALSE(selects("", "a", "bf16"));
}

} // namespace
