//===- MutationTest.cpp - damaged configurations --------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every prefix of an input, and some thousand seeded damages of each, give a
// description or an error that names the file; never a crash. What was read
// stays inside the bounds that the readers promise. Built under sanitizers in
// CI.
//
//===----------------------------------------------------------------------===//

#include "compiler/import/Vocabulary.h"
#include "test/import/ImportTesting.h"

#include <gtest/gtest.h>

#include <random>

using namespace moec;
using namespace moec::compiler;
using namespace moec::compiler::testing;

namespace {

std::vector<std::string> seeds() {
  return {
      modelText("qwen3-30b-a3b"),
      modelText("mixtral-8x7b"),
      modelText("dbrx"),
      modelText("kimi-k3"),
      modelText("hunyuan-a13b"),
      modelText("step-3.5-flash"),
      modelText("deepseek-v2"),
      layerText(),
      layerText(
          {{"swiglu_limit", 7.5},
           {"routing_method", nullptr},
           {"scoring_func", "softmax"},
           {"quant_config",
            {{"w1", {{"dtype", "i4"}, {"shape", {1, 32}}, {"scale", "bf16"}}}}},
           {"moe_parallel_config", {{"tp_size", 4}, {"tp_rank", 3}}}})};
}

void check(const std::string &text) {
  Result<LayerDescription> layer = readDescription(text, "in.json", {});
  if (!layer) {
    EXPECT_TRUE(layer.error().message.starts_with("in.json: "))
        << layer.error().message;
    // Each mistake has a line.
    std::istringstream lines(layer.error().message);
    int count = 0;
    for (std::string line; std::getline(lines, line); ++count)
      EXPECT_LT(line.size(), 4000u);
    EXPECT_LE(count, 16);
    EXPECT_EQ(layer.error().code, ErrorCode::Refused);
    return;
  }
  EXPECT_GE(layer->experts, 1);
  EXPECT_LE(layer->experts, kMaxDescribedExperts);
  EXPECT_LE(layer->topK, layer->experts);
  EXPECT_LE(layer->hidden, kMaxDescribedHidden);
  EXPECT_LE(layer->intermediate, kMaxDescribedIntermediate);
  EXPECT_LT(layer->parallel.tpRank, layer->parallel.tp);
  EXPECT_FALSE(layer->inputType.empty());
}

TEST(Mutation, EveryPrefixIsRefused) {
  for (std::string text : seeds()) {
    size_t end = text.find_last_of('}');
    ASSERT_NE(end, std::string::npos);
    for (size_t length = 0; length <= end; ++length) {
      Result<LayerDescription> layer =
          readDescription(text.substr(0, length), "in.json", {});
      ASSERT_FALSE(layer) << "accepted a prefix of " << length << " bytes";
    }
  }
}

std::string damage(std::string text, std::mt19937_64 &random) {
  static const std::string kPieces[] = {"[[[[[[[[",
                                        "{\"a\":",
                                        "\"",
                                        "\\",
                                        "\\ud800",
                                        "1e999",
                                        "-1",
                                        "null",
                                        "true",
                                        "18446744073709551616",
                                        "\xFF\xFE",
                                        "\xC3",
                                        "\n",
                                        ",",
                                        ":",
                                        "}",
                                        "]",
                                        "0.5",
                                        "NaN",
                                        "9223372036854775807",
                                        "-9223372036854775808",
                                        std::string(1, '\0'),
                                        "\"num_experts\": 3,"};
  auto below = [&](size_t n) { return n ? random() % n : 0; };
  for (size_t i = 0, count = 1 + below(4); i < count; ++i) {
    size_t at = below(text.size() + 1);
    switch (below(6)) {
    case 0:
      if (at < text.size())
        text[at] = char(random());
      break;
    case 1:
      text.erase(at, below(20));
      break;
    case 2:
      text.insert(at, kPieces[below(std::size(kPieces))]);
      break;
    case 3:
      text.insert(at, text.substr(below(text.size()), below(200)));
      break;
    case 4: {
      // A value becomes another: what stands between ':' and ','.
      size_t colon = text.find(':', at);
      size_t comma = text.find_first_of(",\n", colon);
      if (colon != std::string::npos && comma != std::string::npos)
        text.replace(colon + 1, comma - colon - 1,
                     kPieces[below(std::size(kPieces))]);
      break;
    }
    default:
      text.resize(at);
    }
  }
  return text;
}

TEST(Mutation, SeededDamage) {
  constexpr size_t kRounds = 3000;
  std::mt19937_64 random(20260301);
  for (const std::string &text : seeds())
    for (size_t i = 0; i < kRounds; ++i) {
      check(damage(text, random));
      if (HasFailure())
        FAIL() << "round " << i << " of: " << text.substr(0, 40);
    }
}

} // namespace
