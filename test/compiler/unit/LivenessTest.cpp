//===- LivenessTest.cpp - workspace places values correctly ---------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Overlap in bytes only without overlap in time, at every token count, and
// no waste where lifetimes end.
//
//===----------------------------------------------------------------------===//

#include "compiler/plan/Liveness.h"

#include <gtest/gtest.h>

#include <random>

using namespace moec;
using namespace moec::compiler;

static Symbols at(int64_t tokens) {
  Symbols symbols;
  symbols.tokens = tokens;
  symbols.rows = tokens * 8;
  return symbols;
}

static Expression tokensTimes(int64_t bytes) {
  return Expression::symbol("tokens") * Expression(bytes);
}

TEST(Liveness, ValuesOfDifferentTimesShareBytes) {
  std::vector<LiveValue> values = {{"a", tokensTimes(4096), 0, 1},
                                   {"b", tokensTimes(2048), 2, 3}};
  auto plan = planWorkspace(values, at(64));
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->offsets[0].text(), "0");
  EXPECT_EQ(plan->offsets[1].text(), "0");
  EXPECT_EQ(*plan->bytes.evaluate(at(64)), 64 * 4096);
}

TEST(Liveness, OffsetsAreAlignedForSizesThatAreNot) {
  std::vector<LiveValue> values = {{"a", tokensTimes(12), 0, 1},
                                   {"b", tokensTimes(4), 1, 2}};
  auto plan = planWorkspace(values, at(7));
  ASSERT_TRUE(plan);
  EXPECT_EQ(*plan->offsets[1].evaluate(at(1)), 256);
  EXPECT_EQ(*plan->offsets[1].evaluate(at(64)), 768);
}

TEST(Liveness, NoValuesNeedNoBytes) {
  auto plan = planWorkspace({}, at(1));
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->bytes.text(), "0");
}

TEST(Liveness, RandomLifetimesNeverCollideAtAnyTokenCount) {
  std::mt19937 random(7);
  auto pick = [&](int low, int high) {
    return int64_t(low + random() % (high - low + 1));
  };
  for (int round = 0; round < 300; ++round) {
    std::vector<LiveValue> values;
    for (int64_t i = 0, n = pick(1, 9); i < n; ++i) {
      int64_t first = pick(0, 5);
      // Constants and multiples of tokens change order with the token count.
      Expression bytes =
          pick(0, 2) ? tokensTimes(pick(1, 5000)) : Expression(pick(0, 400000));
      values.push_back({std::to_string(i), bytes, first, first + pick(0, 3)});
    }
    auto plan = planWorkspace(values, at(64));
    ASSERT_TRUE(plan);
    for (int64_t tokens : {1, 2, 17, 63, 64}) {
      Symbols symbols = at(tokens);
      int64_t total = *plan->bytes.evaluate(symbols);
      for (size_t a = 0; a < values.size(); ++a) {
        int64_t aBegin = *plan->offsets[a].evaluate(symbols);
        int64_t aEnd = aBegin + *values[a].bytes.evaluate(symbols);
        EXPECT_EQ(aBegin % kRegionAlignment, 0);
        EXPECT_LE(aEnd, total);
        for (size_t b = a + 1; b < values.size(); ++b) {
          int64_t bBegin = *plan->offsets[b].evaluate(symbols);
          int64_t bEnd = bBegin + *values[b].bytes.evaluate(symbols);
          bool inTime = values[a].firstLaunch <= values[b].lastLaunch &&
                        values[b].firstLaunch <= values[a].lastLaunch;
          bool inBytes = aBegin < bEnd && bBegin < aEnd;
          EXPECT_FALSE(inTime && inBytes)
              << "round " << round << " tokens " << tokens << ": "
              << plan->offsets[a].text() << " and " << plan->offsets[b].text();
        }
      }
    }
  }
}
