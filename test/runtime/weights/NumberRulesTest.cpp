//===- NumberRulesTest.cpp - the numbers that a stored weight may hold ----===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/weights/NumberRules.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <vector>

using namespace moec;
using namespace moec::weights;
using nlohmann::json;

TEST(NumberRules, OfValues) {
  const json layer = {
      {"quant",
       {{"w1", {{"group", {-1, -1}}}}, {"w2", {{"group", {1, 128}}}}}}};
  const std::pair<const char *, NumberRule> rows[] = {
      {"a1_scale", NumberRule::PositiveScale},
      {"a2_second_scale", NumberRule::PositiveScale},
      {"shared_a1_scale", NumberRule::PositiveScale},
      {"w13_scale", NumberRule::PositiveScale},
      {"shared_w13_scale", NumberRule::PositiveScale},
      {"w2_scale", NumberRule::Scale},
      {"shared_w2_scale", NumberRule::Scale},
      {"w13_second_scale", NumberRule::PositiveScale},
      {"b13", NumberRule::Finite},
      {"b2", NumberRule::Finite},
      {"routing_bias", NumberRule::Finite},
      {"per_expert_scale", NumberRule::Finite},
      {"post_expert_norm", NumberRule::Finite},
      {"w13", NumberRule::Any},
      {"w2_zero_point", NumberRule::Any},
      {"w13_group_index", NumberRule::Any},
      {"hash_table", NumberRule::Any},
      {"x", NumberRule::Any},
  };
  for (const auto &[name, rule] : rows)
    EXPECT_EQ(ruleOf(layer, name), rule) << name;
  json floats = layer;
  floats["weights_dtype"] = "bf16";
  EXPECT_EQ(ruleOf(floats, "w13"), NumberRule::Finite);
  EXPECT_EQ(ruleOf(floats, "shared_w2"), NumberRule::Finite);
  EXPECT_EQ(ruleOf(json::object(), "w2_scale"), NumberRule::Scale);
}

TEST(NumberRules, OfMemory) {
  Value value;
  value.name = "w13_scale";
  // Two experts of three numbers, four apart.
  std::vector<float> numbers = {1, 2, 3, NAN, 4, 5, 6, NAN};
  const auto *bytes = reinterpret_cast<const std::byte *>(numbers.data());
  const auto said = [&](NumberRule rule, int64_t first, int64_t experts) {
    const int64_t extents[] = {3};
    Result<void> ok = checkStored(json::object(), value, "f32", rule, bytes,
                                  first, experts, extents, 4);
    return ok ? std::string() : ok.error().message;
  };
  EXPECT_EQ(said(NumberRule::PositiveScale, 0, 2), "");
  numbers[6] = 0;
  EXPECT_EQ(said(NumberRule::Scale, 0, 2), "");
  EXPECT_EQ(said(NumberRule::PositiveScale, 0, 1), "");
  EXPECT_EQ(said(NumberRule::PositiveScale, 1, 0), "");
  EXPECT_EQ(said(NumberRule::PositiveScale, 1, 1),
            "value 'w13_scale': expert 1 holds 0, expected a scale that is "
            "finite and above 0");
  numbers[0] = INFINITY;
  EXPECT_EQ(said(NumberRule::Finite, 0, 2),
            "value 'w13_scale': expert 0 holds inf, expected a finite number");
  EXPECT_EQ(said(NumberRule::Finite, 1, 1), "");
  EXPECT_EQ(said(NumberRule::Any, 0, 2), "");
}

namespace {

/// Sizes of 3 hidden and 2 inner numbers as used, 5 and 4 as stored.
json paddedLayer() {
  const json rows = {{"group", {1, 1}}};
  return {{"hidden_size", 3},
          {"intermediate_size_per_partition", 2},
          {"stored_hidden_size", 5},
          {"stored_intermediate_size_per_partition", 4},
          {"activation", {{"gated", true}}},
          {"gate_up_order", "gate_first"},
          {"quant", {{"w1", rows}, {"w2", rows}}}};
}

/// The places of an expert that are verified, as a row of digits for each of
/// the first extent; or a refusal of all.
std::string verified(const json &layer, const std::string &name,
                     const std::vector<int64_t> &extents) {
  int64_t count = 1;
  for (int64_t extent : extents)
    count *= extent;
  Value value;
  value.name = name;
  std::string text;
  for (int64_t at = 0; at < count; ++at) {
    std::vector<float> numbers(size_t(2 * count), 1);
    numbers[size_t(count + at)] = NAN; // of the second expert
    const Result<void> ok =
        checkStored(layer, value, "f32", NumberRule::Finite,
                    reinterpret_cast<const std::byte *>(numbers.data()), 0, 2,
                    extents, count);
    if (!ok && ok.error().code != ErrorCode::InvalidArgument)
      return ok.error().message;
    text += ok ? '.' : 'x';
    if (extents.size() == 2 && (at + 1) % extents[1] == 0)
      text += ' ';
  }
  return text;
}

} // namespace

TEST(NumberRules, PaddingMayHoldAnyNumber) {
  json layer = paddedLayer();
  EXPECT_EQ(verified(layer, "w2_scale", {5, 4}), "xx.. xx.. xx.. .... .... ");
  EXPECT_EQ(verified(layer, "w13_scale", {8, 5}),
            "xxx.. xxx.. ..... ..... xxx.. xxx.. ..... ..... ");
  EXPECT_EQ(verified(layer, "b13", {8}), "xx..xx..");
  EXPECT_EQ(verified(layer, "b2", {5}), "xxx..");
  EXPECT_EQ(verified(layer, "w13_second_scale", {2}), "xx");
  layer["quant"]["w1"]["second_per_row"] = true;
  EXPECT_EQ(verified(layer, "w13_second_scale", {8}), "xx..xx..");
  layer["activation"]["gated"] = false;
  EXPECT_EQ(verified(layer, "b13", {4}), "xx..");
  // Gates and ups by turns.
  layer = paddedLayer();
  layer["gate_up_order"] = "interleaved";
  EXPECT_EQ(verified(layer, "b13", {8}), "xxxx....");
  EXPECT_EQ(verified(layer, "b2", {5}), "xxx..");
  // Scales of blocks, and of rows.
  layer = paddedLayer();
  layer["quant"]["w1"]["group"] = {2, 2};
  EXPECT_EQ(verified(layer, "w13_scale", {4, 3}), "xx. ... xx. ... ");
  layer["quant"]["w1"]["group"] = {1, -1};
  EXPECT_EQ(verified(layer, "w13_scale", {8}), "xx..xx..");
  layer["quant"]["w1"]["group"] = {-1, -1};
  EXPECT_EQ(verified(layer, "w13_scale", {2}), "xx");
  // Columns before rows.
  layer = paddedLayer();
  layer["stored_layout"] = {{"scales", {{"rows_last", true}}}};
  EXPECT_EQ(verified(layer, "w2_scale", {4, 5}), "xxx.. xxx.. ..... ..... ");
}

TEST(NumberRules, AtomsOfScalesArePadded) {
  json layer = paddedLayer();
  layer.erase("stored_hidden_size");
  layer.erase("stored_intermediate_size_per_partition");
  layer["stored_layout"] = {{"scales", {{"atoms", true}}}};
  // Rows 0 to 2 of 128, 32 of which follow each other; columns 0 and 1 of 4.
  std::string text = verified(layer, "w2_scale", {128, 4});
  std::erase(text, ' ');
  std::string expected(512, '.');
  for (int row : {0, 1, 2})
    expected[size_t(row) * 16] = expected[size_t(row) * 16 + 1] = 'x';
  EXPECT_EQ(text, expected);
  EXPECT_EQ(verified(layer, "b2", {3}), "xxx") << "biases have no atoms";
}

TEST(NumberRules, ShapesThatTheLayerDoesNotHave) {
  json layer = paddedLayer();
  EXPECT_EQ(verified(layer, "w2_scale", {5, 5}),
            "value 'w2_scale': expected the extents of the layer's sizes and "
            "padding, got [5, 5] for an expert");
  layer["quant"]["w2"]["group"] = json::array();
  EXPECT_NE(verified(layer, "w2_scale", {5, 4}).find("got [5, 4]"),
            std::string::npos);
  layer = paddedLayer();
  layer["stored_layout"] = {{"scales", {{"atoms", true}}}};
  EXPECT_NE(verified(layer, "w2_scale", {5, 4}).find("got [5, 4]"),
            std::string::npos);
}
