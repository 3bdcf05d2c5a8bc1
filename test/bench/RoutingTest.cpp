//===- RoutingTest.cpp - which experts tokens choose ----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Counts of experts by their logits: ranks of Zipf, hot and unused experts,
// pairs that are dealt out, and texts that are no routing.
//
//===----------------------------------------------------------------------===//

#include "bench/program/Routing.h"
#include "test/reference/Element.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

using namespace moec;
using namespace moec::bench;

namespace {

constexpr LogitsShape kShape = {2000, 64, 4};

Routing routingOf(const std::string &text) {
  Result<RoutingPattern> pattern = RoutingPattern::parse(text);
  EXPECT_TRUE(pattern) << text;
  return {*pattern};
}

/// Tokens of each expert, in falling order.
std::vector<int64_t> countsOf(const std::string &text, bool dealt,
                              const LogitsShape &shape = kShape) {
  const Routing routing = {routingOf(text).pattern, dealt};
  Result<std::vector<char>> data = routingLogits(routing, "bf16", shape, 7);
  EXPECT_TRUE(data) << text;
  const reference::Element &element = *reference::findElement("bf16");
  std::vector<int64_t> counts(size_t(shape.experts));
  std::vector<int64_t> order(size_t(shape.experts));
  for (int64_t t = 0; t < shape.tokens; ++t) {
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return reference::load(element, data->data(), t * shape.experts + a) >
             reference::load(element, data->data(), t * shape.experts + b);
    });
    for (int64_t j = 0; j < shape.topK; ++j)
      ++counts[size_t(order[size_t(j)])];
  }
  std::sort(counts.begin(), counts.end(), std::greater<>());
  return counts;
}

int64_t touched(const std::vector<int64_t> &counts) {
  return std::count_if(counts.begin(), counts.end(),
                       [](int64_t count) { return count > 0; });
}

TEST(BenchRouting, UniformCountsAreNearTheMean) {
  const std::vector<int64_t> counts = countsOf("uniform", false);
  EXPECT_LT(counts.front(), 125 + 60);
  EXPECT_GT(counts.back(), 125 - 60);
}

TEST(BenchRouting, CountsOfZipfFall) {
  const std::vector<int64_t> counts = countsOf("zipf:1.2", false);
  // The first rank is in nearly every token's four, rank 33 in few.
  EXPECT_GT(counts[0], 1500);
  EXPECT_NEAR(double(counts[32]), 50, 35);
  EXPECT_GT(counts[0], 10 * counts[32]);
}

TEST(BenchRouting, EveryTokenChoosesHotExperts) {
  const std::vector<int64_t> one = countsOf("hot:1", false);
  EXPECT_EQ(one[0], kShape.tokens);
  EXPECT_LT(one[1], 200);
  const std::vector<int64_t> four = countsOf("hot:4", false);
  EXPECT_EQ(four[3], kShape.tokens);
  EXPECT_EQ(four[4], 0);
}

TEST(BenchRouting, UnusedExpertsGetNothing) {
  const std::vector<int64_t> counts = countsOf("used:0.5", false);
  EXPECT_EQ(touched(counts), 32);
  EXPECT_LT(counts.front(), 250 + 80);
}

TEST(BenchRouting, DealtPairsAreEven) {
  for (const char *text : {"uniform", "zipf:1.2", "hot:1", "used:0.25"}) {
    // So few tokens that Zipf leaves experts out.
    const LogitsShape few = {16, 64, 4};
    const std::vector<int64_t> counts = countsOf(text, false, few);
    const std::vector<int64_t> dealt = countsOf(text, true, few);
    EXPECT_EQ(touched(dealt), touched(counts)) << text;
    const int64_t least = few.tokens * few.topK / touched(dealt);
    EXPECT_LE(dealt.front(), least + 1) << text;
    EXPECT_GE(dealt[size_t(touched(dealt) - 1)], least) << text;
  }
}

TEST(BenchRouting, SeedsGiveHotExpertsToOthers) {
  const Routing hot = routingOf("hot:1");
  EXPECT_NE(*routingLogits(hot, "f32", kShape, 1),
            *routingLogits(hot, "f32", kShape, 2));
  EXPECT_EQ(*routingLogits(hot, "f32", kShape, 1),
            *routingLogits(hot, "f32", kShape, 1));
}

TEST(BenchRouting, RefusesOtherTexts) {
  for (const char *text :
       {"", "zipf", "zipf:", "zipf:-1", "zipf:nan", "hot:0", "hot:1.5",
        "used:1.5", "used:0.5x", "even:1", "uniform:1"})
    EXPECT_FALSE(RoutingPattern::parse(text)) << text;
}

TEST(BenchRouting, RefusesWhatTheLayerCannotHave) {
  EXPECT_FALSE(routingLogits(routingOf("hot:65"), "f32", kShape, 1));
  EXPECT_TRUE(routingLogits(routingOf("hot:64"), "f32", kShape, 1));
  EXPECT_FALSE(routingLogits(routingOf("used:0.04"), "f32", kShape, 1));
  EXPECT_TRUE(routingLogits(routingOf("used:0.0625"), "f32", kShape, 1));
  EXPECT_FALSE(routingLogits(routingOf("hot:1"), "i32", kShape, 1));
}

} // namespace
