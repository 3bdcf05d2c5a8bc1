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
      {"w13", NumberRule::Any},
      {"w2_zero_point", NumberRule::Any},
      {"w13_group_index", NumberRule::Any},
      {"hash_table", NumberRule::Any},
      {"x", NumberRule::Any},
  };
  for (const auto &[name, rule] : rows)
    EXPECT_EQ(ruleOf(layer, name), rule) << name;
  json floats = layer;
  floats["weights_type"] = "bf16";
  EXPECT_EQ(ruleOf(floats, "w13"), NumberRule::Finite);
  EXPECT_EQ(ruleOf(floats, "shared_w2"), NumberRule::Finite);
  // Only rows of an expert are padded, and padding is not verified.
  json padded = layer;
  padded["stored_hidden"] = 256;
  EXPECT_EQ(ruleOf(padded, "w2_scale"), NumberRule::Any);
  EXPECT_EQ(ruleOf(padded, "w13_second_scale"), NumberRule::PositiveScale);
  EXPECT_EQ(ruleOf(padded, "a1_scale"), NumberRule::PositiveScale);
  EXPECT_EQ(ruleOf(json::object(), "w2_scale"), NumberRule::Scale);
}

TEST(NumberRules, OfMemory) {
  Value value;
  value.name = "w13_scale";
  // Two experts of three numbers, four apart.
  std::vector<float> numbers = {1, 2, 3, NAN, 4, 5, 6, NAN};
  const auto *bytes = reinterpret_cast<const std::byte *>(numbers.data());
  const auto said = [&](NumberRule rule, int64_t first, int64_t experts) {
    Result<void> ok =
        checkStored(value, "f32", rule, bytes, first, experts, 3, 4);
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
