//===- TunedTest.cpp - measured schedules are read strictly ---------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every wrong row is named, and a right one serves the problems it may.
//
//===----------------------------------------------------------------------===//

#include "compiler/plan/Tuned.h"
#include "compiler/engine/Engine.h"
#include "test/compiler/unit/ScheduleTesting.h"

#include <gtest/gtest.h>

using namespace moec;
using namespace moec::compiler;
using namespace moec::test;

static std::string row(const std::string &tokens, const std::string &us,
                       const std::string &stages = "4") {
  return R"({"gpu": "h100_sxm", "microseconds": )" + us +
         R"(, "date": "2026-11-21", "problem": {"tokens": )" + tokens +
         R"(, "n": 1536, "k": 2048, "experts": 128, "pairs": 8,)"
         R"( "element_type": "bf16", "gated": true, "gather": true},)"
         R"( "schedule": {"engine": "mma_sync", "tile": [16, 64, 64],)"
         R"( "stages": )" +
         stages + R"(, "warps": [1, 4], "group": 8}})";
}

static std::string file(const std::string &rows) {
  return R"({"tuned": 1, "rows": [)" + rows + "]}";
}

static MatmulProblem problem() { return gateUp(1, 64, 16); }

static std::string errorOf(const std::string &text) {
  auto rows = parseTuned(text, "t.json");
  return rows ? "" : rows.error().message;
}

TEST(Tuned, BuiltinRowsParse) {
  auto rows = builtinTuned();
  EXPECT_TRUE(rows) << rows.error().message;
}

TEST(Tuned, TheLargestTokenCountInRangeAndThenTheFastestWins) {
  auto rows =
      parseTuned(file(row("8", "1.0") + "," + row("32", "5.0", "2") + "," +
                      row("32", "4.0", "5") + "," + row("128", "0.5")),
                 "t.json");
  ASSERT_TRUE(rows) << rows.error().message;
  auto found = findTuned(*rows, problem(), "mma_sync", h100());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->stages, 5);
  EXPECT_EQ(found->source, "tuned");
  EXPECT_GE(found->ctasPerSm, 1);
}

TEST(Tuned, SchedulesOfWgmmaHaveRoles) {
  std::string text = row("32", "1.0");
  text.replace(text.find("mma_sync"), 8, "wgmma");
  text.replace(text.find("[16, 64, 64]"), 12, "[16, 128, 64]");
  std::string warps = R"("warps": [1, 4])";
  EXPECT_EQ(errorOf(file(text)), "measured schedules 't.json': "
                                 "rows[0].schedule.producer_warps: expected an "
                                 "integer from 0 to 2147483647, got nothing");
  text.replace(text.find(warps), warps.size(),
               R"("producer_warps": 4, "consumer_warps": 8,)"
               R"( "registers": [56, 224], "ctas_per_sm": 1)");
  auto rows = parseTuned(file(text), "t.json");
  ASSERT_TRUE(rows) << rows.error().message;
  auto found = findTuned(*rows, problem(), "wgmma", h100());
  ASSERT_TRUE(found);
  EXPECT_EQ(describe(*found), "wgmma 16x128x64 stages 4 warps 4+8");
  EXPECT_EQ(found->ctasPerSm, 1);
  EXPECT_FALSE(findTuned(*rows, problem(), "mma_sync", h100()));
}

/// Every row built in serves the problem that it was measured on.
TEST(Tuned, BuiltinRowsAreLegal) {
  auto rows = builtinTuned();
  ASSERT_TRUE(rows) << rows.error().message;
  EXPECT_FALSE(rows->empty());
  for (const TunedRow &row : *rows) {
    MatmulProblem p;
    p.minTokens = p.maxTokens = row.tokens;
    p.n = row.n, p.k = row.k;
    p.experts = p.localExperts = row.experts, p.pairs = row.pairs;
    p.elementType = row.elementType;
    p.gated = row.gated, p.gather = row.gather;
    p.tileRows = row.schedule.tileM;
    Hardware hw;
    ASSERT_TRUE(findHardware("sm_90a", row.gpu, hw));
    EXPECT_EQ(whyIllegal(p, row.schedule, hw), std::nullopt)
        << describe(row.schedule);
    EXPECT_TRUE(findTuned(*rows, p, row.schedule.engine, hw));
  }
}

TEST(Tuned, RowsThatAreNotLegalArePassedOver) {
  auto rows = parseTuned(file(row("32", "1.0", "99")), "t.json");
  ASSERT_TRUE(rows);
  EXPECT_FALSE(findTuned(*rows, problem(), "mma_sync", h100()));
}

TEST(Tuned, RowsOfOtherGpusDoNotServe) {
  auto rows = parseTuned(file(row("32", "1.0")), "t.json");
  ASSERT_TRUE(rows);
  Hardware other = h100();
  other.gpu = "h200_sxm";
  EXPECT_FALSE(findTuned(*rows, problem(), "mma_sync", other));
}

TEST(Tuned, EveryWrongFieldIsNamed) {
  auto said = [](const std::string &text) {
    return "measured schedules 't.json': " + text;
  };
  const std::string integer = "expected an integer from 1 to 2147483647, got ";
  EXPECT_EQ(errorOf("{"),
            said("line 1, column 2: expected JSON, got a text that is not: "
                 "syntax error while parsing object key - unexpected end of "
                 "input; expected string literal"));
  EXPECT_EQ(errorOf("{}"),
            said("tuned: expected an integer from 1 to 1, got nothing"));
  EXPECT_EQ(errorOf(R"({"tuned": 1, "rows": [], "x": 0})"),
            said("x: unknown field; accepted here: rows and tuned"));
  EXPECT_EQ(errorOf(R"({"tuned": 1, "rows": {}})"),
            said("rows: expected an array, got an object"));
  EXPECT_EQ(errorOf(R"({"tuned": 1, "rows": [7]})"),
            said("rows[0]: expected an object, got the number 7"));
  EXPECT_EQ(errorOf(file(row("\"8\"", "1.0"))),
            said("rows[0].problem.tokens: " + integer + "the string \"8\""));
  EXPECT_EQ(
      errorOf(file(row("4294967296", "1.0"))),
      said("rows[0].problem.tokens: " + integer + "the number 4294967296"));
  EXPECT_EQ(errorOf(file(row("8", "0"))),
            said("rows[0].microseconds: expected a positive number, got the "
                 "number 0"));
  EXPECT_EQ(errorOf(file(row("8", "1.0, \"y\": 1"))),
            said("rows[0].y: unknown field; accepted here: date, gpu, "
                 "microseconds, problem and schedule"));
  EXPECT_EQ(errorOf(file("{}")),
            said("rows[0].gpu: expected a string, got nothing"));
}
