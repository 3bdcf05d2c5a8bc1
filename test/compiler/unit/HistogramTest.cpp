//===- HistogramTest.cpp - rows of experts --------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/matmul/Histogram.h"
#include "runtime/support/Files.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

using namespace moec;
using namespace moec::compiler;

namespace {

Histogram histogramOf(std::string_view text) {
  Result<Histogram> histogram = Histogram::parse(text);
  EXPECT_TRUE(histogram) << text;
  return *histogram;
}

std::string messageOf(std::string_view text) {
  Result<Histogram> histogram = Histogram::parse(text);
  return histogram ? "" : histogram.error().message;
}

double sumOf(const std::vector<ExpertGroup> &groups) {
  double sum = 0;
  for (const ExpertGroup &group : groups)
    sum += group.experts * group.chance;
  return sum;
}

/// A file of this text; removed with the test's folder.
std::string fileOf(const std::string &name, std::string_view text) {
  const std::string path = testing::TempDir() + name;
  EXPECT_TRUE(writeFile(path, text));
  return path;
}

TEST(ExpertRows, OneTokenTouchesItsExpertsAndManyTouchAll) {
  EXPECT_NEAR(ExpertRows::uniform(1, 128, 128, 8).touched(), 8, 1e-9);
  EXPECT_NEAR(ExpertRows::uniform(8192, 128, 128, 8).touched(), 128, 1e-3);
  EXPECT_NEAR(ExpertRows::uniform(8192, 128, 32, 8).rows(), 8192 * 2, 1e-6);
  const auto tiles = ExpertRows::uniform(1, 128, 128, 8).tiles(64, 16, false);
  EXPECT_NEAR(tiles.count, 8, 1e-9);
  EXPECT_NEAR(tiles.rows, 8 * 16, 1e-9);
}

/// Three tokens, one of two experts: 0 to 3 rows with odds 1 3 3 1 of 8.
TEST(ExpertRows, TilesAreMeansOverTheCounts) {
  const ExpertRows rows = ExpertRows::uniform(3, 2, 1, 1);
  // Tiles of two rows: 1 for 1 and 2 rows, 2 for 3.
  EXPECT_NEAR(rows.tiles(2, 1, false).count, (3 + 3 + 2) / 8.0, 1e-12);
  EXPECT_NEAR(rows.tiles(2, 1, false).rows, (3 + 6 + 3) / 8.0, 1e-12);
  EXPECT_NEAR(rows.tiles(2, 2, false).rows, (3 * 2 + 3 * 2 + 4) / 8.0, 1e-12);
}

TEST(ExpertRows, AlikeTilesShareTheRowsOfAnExpert) {
  // All 130 rows are one expert's: 128 and 16, or 80 and 64 rows.
  const ExpertRows rows(130, {{1, 1.0}});
  EXPECT_NEAR(rows.tiles(128, 16, false).rows, 128 + 16, 1e-9);
  EXPECT_NEAR(rows.tiles(128, 16, true).rows, 80 + 64, 1e-9);
  EXPECT_NEAR(rows.most(), 130, 1e-9);
}

TEST(Histogram, ChancesAddUpToThePairsOfAToken) {
  for (const char *text :
       {"uniform", "zipf:1.2", "zipf:0", "hot:2", "hot:16", "used:0.5"})
    EXPECT_NEAR(sumOf(*histogramOf(text).chances(32, 4)), 4, 1e-6) << text;
  // Experts of low ranks are nearly always chosen.
  const auto groups = *histogramOf("zipf:1.2").chances(32, 4);
  EXPECT_GT(groups.front().chance, 0.8);
  EXPECT_LT(groups.back().chance, 0.05);
  const auto even = *histogramOf("zipf:0").chances(32, 4);
  EXPECT_NEAR(even.front().chance, 0.125, 1e-9);
}

/// The counts that are summed have all but a millionth of the rows.
TEST(ExpertRows, TheTailsOfTheCountsAreSummed) {
  for (const double chance : {0.01, 0.5, 0.97})
    for (const int64_t tokens : {10, 1000, 20000})
      EXPECT_NEAR(ExpertRows(tokens, {{3, chance}}).tiles(1, 1, false).rows,
                  3 * chance * double(tokens),
                  1e-6 * 3 * chance * double(tokens))
          << chance << " of " << tokens;
}

/// Steps that do not divide a tile may leave the last tile without rows.
TEST(ExpertRows, ALastTileMayBeEmpty) {
  const ExpertRows rows(100, {{1, 1.0}});
  EXPECT_NEAR(rows.tiles(48, 32, true).rows, 2 * 64, 1e-9);
  EXPECT_NEAR(rows.tiles(48, 32, true).count, 3, 1e-9);
}

/// All tokens choose the hot experts. The other experts share the other pairs.
TEST(Histogram, HotExpertsTakeWhatTheyCan) {
  const auto few = *histogramOf("hot:2").chances(8, 3);
  ASSERT_EQ(few.size(), 2u);
  EXPECT_EQ(few[0].experts, 2);
  EXPECT_NEAR(few[0].chance, 1, 1e-12);
  EXPECT_EQ(few[1].experts, 6);
  EXPECT_NEAR(few[1].chance, 1.0 / 6, 1e-12);
  EXPECT_NEAR((*histogramOf("hot:6").chances(8, 3)).front().chance, 0.5, 1e-12);
}

TEST(Histogram, AFractionIsUsed) {
  for (const auto &[text, used] :
       {std::pair("used:0.5", 64), {"used:0.25", 32}, {"used:1", 128}}) {
    const auto groups = *histogramOf(text).chances(128, 4);
    double chosen = 0;
    for (const ExpertGroup &group : groups)
      chosen += group.chance > 0 ? group.experts : 0;
    EXPECT_EQ(chosen, used) << text;
  }
}

TEST(Histogram, CountsOfAFileAreChances) {
  const std::string path = fileOf("counts.json", R"({"rows": [90, 5, 5, 0]})");
  const auto one = *histogramOf(path).chances(4, 1);
  ASSERT_EQ(one.size(), 3u);
  EXPECT_NEAR(one[0].chance, 0.9, 1e-12);
  EXPECT_NEAR(one[1].chance, 0.05, 1e-12);
  EXPECT_EQ(one[1].experts, 2);
  // A token chooses an expert once: what is above goes to others.
  const auto two = *histogramOf(path).chances(4, 2);
  EXPECT_NEAR(two[0].chance, 1, 1e-12);
  EXPECT_NEAR(two[1].chance, 0.5, 1e-12);
  EXPECT_NEAR(sumOf(two), 2, 1e-12);
}

TEST(Histogram, RefusesWhatDoesNotFit) {
  EXPECT_NE(messageOf("even").find("uniform, zipf:EXPONENT, hot:EXPERTS or "
                                   "used:FRACTION, or a JSON file"),
            std::string::npos);
  EXPECT_NE(messageOf("zipf:x").find("expected an exponent from 0 to 10"),
            std::string::npos);
  for (const char *text :
       {"[1, 2]", "{}", R"({"rows": [1], "more": 2})", R"({"rows": [-1, 2]})",
        R"({"rows": [0, 0]})", R"({"rows": ["1"]})", R"({"rows": [1,]})"})
    EXPECT_NE(messageOf(fileOf("bad.json", text)), "") << text;
  const Histogram counts =
      histogramOf(fileOf("few.json", R"({"rows": [3, 1, 0, 0]})"));
  EXPECT_EQ(counts.chances(8, 1).error().message,
            "histogram '" + counts.text() +
                "': expected the rows of the layer's 8 experts, got 4 numbers");
  EXPECT_EQ(counts.chances(4, 3).error().message,
            "histogram '" + counts.text() +
                "': a token chooses 3 experts, and 2 got rows");
  // If only as many experts have rows as a token chooses, each token chooses
  // all of them.
  const auto both = counts.chances(4, 2);
  ASSERT_TRUE(both);
  EXPECT_NEAR(both->front().chance, 1, 1e-12);
  EXPECT_EQ(both->front().experts, 2);
  EXPECT_FALSE(histogramOf("hot:9").chances(8, 2));
  EXPECT_TRUE(histogramOf("hot:8").chances(8, 2));
  EXPECT_FALSE(histogramOf("used:0.1").chances(8, 2));
  EXPECT_TRUE(histogramOf("used:0.25").chances(8, 2));
}

} // namespace
