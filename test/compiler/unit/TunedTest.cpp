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
#include "compiler/matmul/Engine.h"
#include "test/compiler/unit/ScheduleTesting.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

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
  auto *row = findTuned(*rows, problem(), {&engines::mma_sync()}, h100());
  ASSERT_TRUE(row);
  const Schedule found = scheduleOfRow(*row, problem(), h100());
  EXPECT_EQ(found.stages, 5);
  EXPECT_EQ(found.source, "tuned");
  EXPECT_GE(found.ctasPerSm, 1);
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
  auto *found = findTuned(*rows, problem(), {&engines::wgmma()}, h100());
  ASSERT_TRUE(found);
  EXPECT_EQ(describe(found->schedule), "wgmma 16x128x64 stages 4 warps 4+8");
  EXPECT_EQ(found->schedule.ctasPerSm, 1);
  EXPECT_FALSE(findTuned(*rows, problem(), {&engines::mma_sync()}, h100()));
}

/// Every row of bf16 that is built in serves the problem that it was measured
/// on. Other schemes need a whole layer: driver/tuned-built-in.test has them.
TEST(Tuned, BuiltinRowsAreLegal) {
  auto rows = builtinTuned();
  ASSERT_TRUE(rows) << rows.error().message;
  EXPECT_FALSE(rows->empty());
  for (const TunedRow &row : *rows) {
    if (!row.scheme.empty() && row.scheme != "bf16")
      continue;
    MatmulProblem p;
    p.scheme = row.scheme;
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
    EXPECT_TRUE(findTuned(*rows, p, {&engineOf(row.schedule)}, hw));
  }
}

TEST(Tuned, RowsThatAreNotLegalArePassedOver) {
  auto rows = parseTuned(file(row("32", "1.0", "99")), "t.json");
  ASSERT_TRUE(rows);
  EXPECT_FALSE(findTuned(*rows, problem(), {&engines::mma_sync()}, h100()));
}

TEST(Tuned, RowsOfOtherGpusDoNotServe) {
  auto rows = parseTuned(file(row("32", "1.0")), "t.json");
  ASSERT_TRUE(rows);
  Hardware other = h100();
  other.gpu = "h200_sxm";
  EXPECT_FALSE(findTuned(*rows, problem(), {&engines::mma_sync()}, other));
}

TEST(Tuned, RowsOfOtherProblemsDoNotServe) {
  auto rows = parseTuned(file(row("32", "1.0")), "t.json");
  ASSERT_TRUE(rows);
  const MatmulProblem same = problem();
  EXPECT_TRUE(isOfProblem(rows->front(), same, "h100_sxm"));
  using Change = void (*)(MatmulProblem &);
  for (const Change change : std::initializer_list<Change>{
           [](MatmulProblem &p) { p.n *= 2; },
           [](MatmulProblem &p) { p.k *= 2; },
           [](MatmulProblem &p) { p.localExperts = 64; },
           [](MatmulProblem &p) { p.pairs = 4; },
           [](MatmulProblem &p) { p.elementType = "f16"; },
           [](MatmulProblem &p) { p.gated = !p.gated; },
           [](MatmulProblem &p) { p.gather = !p.gather; }}) {
    MatmulProblem other = same;
    change(other);
    EXPECT_FALSE(isOfProblem(rows->front(), other, "h100_sxm"));
  }
  TunedRow named = rows->front();
  named.scheme = "bf16";
  MatmulProblem scheme = same;
  scheme.scheme = "bf16";
  EXPECT_TRUE(isOfProblem(named, scheme, "h100_sxm"));
  EXPECT_TRUE(isOfProblem(rows->front(), scheme, "h100_sxm"));
  EXPECT_FALSE(isOfProblem(named, same, "h100_sxm"));
}

/// A row of version 2 of one of the layer's matmuls.
static std::string rangeRow(
    const std::string &tokens, const std::string &tile, bool first = true,
    const std::string &measured = R"("microseconds": 2.5, "noise": 0.01)") {
  return R"({"gpu": "h100_sxm", "tokens": )" + tokens +
         R"(, "problem": {"n": )" + (first ? "1536" : "2048") + R"(, "k": )" +
         (first ? "2048" : "768") +
         R"(, "experts": 128, "pairs": 8, "element_type": "bf16", "gated": )" +
         (first ? "true" : "false") + R"(, "gather": )" +
         (first ? "true" : "false") +
         R"(}, "schedule": {"engine": "mma_sync", "tile": [)" + tile +
         R"(, 64, 64], "stages": 4, "warps": [1, 4], "group": 8},)"
         R"( "measured": {"tokens": 16, )" +
         measured + R"(, "date": "2026-11-28", "commit": "moec"}})";
}

static std::string ranges(const std::string &rows) {
  return R"({"tuned": 2, "rows": [)" + rows + "]}";
}

static MatmulProblem down() {
  MatmulProblem p = problem();
  p.n = 2048, p.k = 768, p.first = p.gated = p.gather = false;
  return p;
}

static std::vector<TunedRow> rowsOf(const std::string &text, int order = 0) {
  auto rows = parseTuned(ranges(text), "t.json", order);
  EXPECT_TRUE(rows) << rows.error().message;
  return rows ? *rows : std::vector<TunedRow>();
}

TEST(Tuned, ARowServesTheTokenCountsThatItWasMeasuredFor) {
  const auto rows = rowsOf(rangeRow("[8, 32]", "16"));
  MatmulProblem p = problem();
  const auto serves = [&](int64_t first, int64_t last) {
    p.minTokens = first, p.maxTokens = last;
    return findTuned(rows, p, {&engines::wgmma(), &engines::mma_sync()},
                     h100()) != nullptr;
  };
  EXPECT_TRUE(serves(8, 32));
  EXPECT_TRUE(serves(9, 31));
  EXPECT_FALSE(serves(7, 32));
  EXPECT_FALSE(serves(8, 33));
  EXPECT_EQ(rangesBeside(rows, p, h100()), "rows for 8 to 32 tokens");
  // It chooses the engine, unless that may not serve.
  p.minTokens = p.maxTokens = 8;
  EXPECT_FALSE(findTuned(rows, p, {&engines::wgmma()}, h100()));
}

TEST(Tuned, RowsOfBothMatmulsMakeARange) {
  const Engines engines = {&compiler::engines::wgmma(),
                           &compiler::engines::mma_sync()};
  const auto of = [&](const std::vector<TunedRow> &rows, int64_t most = 4096) {
    return joined(
        servedRanges(rows, problem(), engines, down(), engines, h100(), most));
  };
  const std::vector<TunedRange> one = {{8, 32, 16}};
  EXPECT_EQ(of(rowsOf(rangeRow("[8, 32]", "16") + "," +
                      rangeRow("[8, 32]", "16", false))),
            one);
  EXPECT_TRUE(of(rowsOf(rangeRow("[8, 32]", "16"))).empty());
  EXPECT_TRUE(of(rowsOf(rangeRow("[8, 32]", "16") + "," +
                        rangeRow("[8, 32]", "32", false)))
                  .empty());
  EXPECT_TRUE(of(rowsOf(rangeRow("[8, 32]", "16") + "," +
                        rangeRow("[8, 31]", "16", false)))
                  .empty());
  // An earlier file's row has the tokens that both have; of one file's the
  // narrower. The count that the other one was measured with must be left.
  auto both = rowsOf(
      rangeRow("[16, 64]", "64") + "," + rangeRow("[16, 64]", "64", false), 1);
  for (const TunedRow &row : rowsOf(rangeRow("[8, 32]", "16") + "," +
                                    rangeRow("[8, 32]", "16", false)))
    both.push_back(row);
  EXPECT_EQ(of(both), one);
  for (TunedRow &row : both)
    row.order = 0;
  EXPECT_EQ(of(both), one);
  EXPECT_EQ(of(both, 20), (std::vector<TunedRange>{{8, 20, 16}}));
  EXPECT_TRUE(of(both, 7).empty());
}

/// Rows of both matmuls, measured with so many tokens.
static std::vector<TunedRow> pairOf(int64_t first, int64_t last, int64_t tokens,
                                    int64_t tileRows, int order = 0) {
  const std::string range = fmt::format("[{}, {}]", first, last);
  const std::string tile = std::to_string(tileRows);
  std::string text = rangeRow(range, tile) + "," + rangeRow(range, tile, false);
  const std::string with = R"("tokens": 16,)";
  for (size_t at = 0; (at = text.find(with, at)) != std::string::npos; ++at)
    text.replace(at, with.size(), fmt::format(R"("tokens": {},)", tokens));
  return rowsOf(text, order);
}

TEST(Tuned, OverlappingRangesAreCutAndEqualNeighboursJoin) {
  using Ranges = std::vector<TunedRange>;
  const Engines engines = {&compiler::engines::wgmma(),
                           &compiler::engines::mma_sync()};
  std::vector<TunedRow> rows;
  const auto add = [&](std::vector<TunedRow> more) {
    rows.insert(rows.end(), more.begin(), more.end());
  };
  const auto all = [&] {
    return joined(
        servedRanges(rows, problem(), engines, down(), engines, h100(), 4096));
  };
  add(pairOf(10, 64, 40, 64, 1));
  add(pairOf(20, 32, 24, 16));
  EXPECT_EQ(all(), (Ranges{{10, 19, 64}, {20, 32, 16}, {33, 64, 64}}));
  // Its count is another row's.
  add(pairOf(4, 24, 22, 32, 1));
  EXPECT_EQ(all(), (Ranges{{10, 19, 64}, {20, 32, 16}, {33, 64, 64}}));
  // Neighbours with equal schedules serve by one kernel.
  add(pairOf(65, 90, 80, 64));
  EXPECT_EQ(all(), (Ranges{{10, 19, 64}, {20, 32, 16}, {33, 90, 64}}));
  MatmulProblem p = problem();
  p.tileRows = 64, p.minTokens = 33, p.maxTokens = 90;
  const TunedRow *row = findTuned(rows, p, engines, h100());
  ASSERT_TRUE(row);
  EXPECT_EQ(lastWithSchedule(rows, *row, p, "h100_sxm"), 90);
  p.maxTokens = 91;
  EXPECT_FALSE(findTuned(rows, p, engines, h100()));
}

TEST(Tuned, AVariantTakesTheRowsThatMadeItsRange) {
  using Ranges = std::vector<TunedRange>;
  const Engines engines = {&compiler::engines::mma_sync()};
  std::vector<TunedRow> rows = pairOf(17, 32, 24, 64);
  // Its token count is another row's, so it makes no range.
  for (const TunedRow &row : pairOf(1, 32, 20, 16))
    rows.push_back(row);
  for (const TunedRow &row : pairOf(1, 40, 8, 16))
    rows.push_back(row);
  rows[4].schedule.stages = rows[5].schedule.stages = 3;
  const auto served =
      servedRanges(rows, problem(), engines, down(), engines, h100(), 4096);
  EXPECT_EQ(joined(served), (Ranges{{1, 16, 16}, {17, 32, 64}, {33, 40, 16}}));
  for (const TunedRange &range : joined(served))
    for (MatmulProblem p : {problem(), down()}) {
      p.tileRows = range.tileRows;
      p.minTokens = range.first, p.maxTokens = range.last;
      const TunedRow *row = findTuned(rows, p, engines, h100(), served);
      ASSERT_TRUE(row);
      EXPECT_EQ(row->tokens, range.first == 17 ? 24 : 8) << range.first;
    }
}

/// A pair is of one file, and neighbours whose schedules differ in either
/// matmul, or with a gap between them, are two ranges.
TEST(Tuned, ARangeIsOfOneFileAndOfOneScheduleOfEachMatmul) {
  using Ranges = std::vector<TunedRange>;
  const Engines engines = {&compiler::engines::mma_sync()};
  const auto of = [&](const std::vector<TunedRow> &rows) {
    return joined(
        servedRanges(rows, problem(), engines, down(), engines, h100(), 4096));
  };
  std::vector<TunedRow> files = pairOf(8, 16, 12, 16);
  EXPECT_EQ(of(files), (Ranges{{8, 16, 16}}));
  files[1].order = 1;
  EXPECT_TRUE(of(files).empty());
  const auto neighbours = [&](int64_t from) {
    std::vector<TunedRow> rows = pairOf(8, 16, 12, 16);
    for (const TunedRow &row : pairOf(from, 32, 24, 16))
      rows.push_back(row);
    return rows;
  };
  EXPECT_EQ(of(neighbours(17)), (Ranges{{8, 32, 16}}));
  for (const size_t matmul : {2, 3}) {
    std::vector<TunedRow> rows = neighbours(17);
    rows[matmul].schedule.stages = 3;
    EXPECT_EQ(of(rows), (Ranges{{8, 16, 16}, {17, 32, 16}})) << matmul;
  }
  const std::vector<TunedRow> apart = neighbours(18);
  EXPECT_EQ(of(apart), (Ranges{{8, 16, 16}, {18, 32, 16}}));
  EXPECT_EQ(lastWithSchedule(apart, apart[0], problem(), "h100_sxm"), 16);
  EXPECT_EQ(lastWithSchedule(neighbours(17), apart[0], problem(), "h100_sxm"),
            32);
}

/// Computes the pair of each token count from the rule alone: of pairs by rank,
/// each whose measured count no earlier one has, the first that was measured
/// for the count.
TEST(Tuned, EachTokenCountIsServedByTheFirstPairThatHasIt) {
  const Engines engines = {&compiler::engines::mma_sync()};
  constexpr int64_t kMost = 40, kMaxTokens = 32;
  for (unsigned seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    const auto draw = [&](int64_t least, int64_t most) {
      return least + int64_t(random() % uint64_t(most - least + 1));
    };
    std::vector<TunedRow> rows;
    for (int pair = 0; pair < 6; ++pair) {
      const int64_t first = draw(1, kMost), last = draw(first, kMost);
      for (TunedRow row : pairOf(first, last, draw(first, last),
                                 draw(0, 1) ? 16 : 64, int(draw(0, 1)))) {
        row.microseconds = 1 + pair;
        rows.push_back(row);
      }
    }
    std::vector<const TunedRow *> order, accepted;
    for (size_t i = 0; i < rows.size(); i += 2)
      order.push_back(&rows[i]);
    std::ranges::sort(order, [](const auto *a, const auto *b) {
      if (a->order != b->order)
        return a->order < b->order;
      if (a->last - a->first != b->last - b->first)
        return a->last - a->first < b->last - b->first;
      return a->tokens != b->tokens ? a->tokens > b->tokens
                                    : a->microseconds < b->microseconds;
    });
    const auto ownerOf = [&](int64_t tokens) -> const TunedRow * {
      const auto found = std::ranges::find_if(accepted, [&](const auto *row) {
        return row->first <= tokens && tokens <= row->last;
      });
      return found == accepted.end() ? nullptr : *found;
    };
    for (const TunedRow *row : order)
      if (const TunedRow *other = ownerOf(row->tokens);
          !other || row->tokens > kMaxTokens)
        accepted.push_back(row);
    const auto served = servedRanges(rows, problem(), engines, down(), engines,
                                     h100(), kMaxTokens);
    for (int64_t tokens = 1; tokens <= kMost; ++tokens) {
      std::vector<const TunedRow *> serving;
      for (const ServedRange &one : served)
        if (one.range.first <= tokens && tokens <= one.range.last)
          serving.push_back(one.rows.first);
      const TunedRow *wanted = tokens <= kMaxTokens ? ownerOf(tokens) : nullptr;
      EXPECT_EQ(serving,
                wanted ? std::vector{wanted} : std::vector<const TunedRow *>())
          << "seed " << seed << ", " << tokens << " tokens";
    }
  }
}

TEST(Tuned, RowsThatNameTheSchemeComeBeforeThoseOfAny) {
  const Engines engines = {&compiler::engines::mma_sync()};
  MatmulProblem p = problem(), its = down();
  p.scheme = its.scheme = "bf16";
  std::vector<TunedRow> rows = pairOf(8, 20, 16, 16);
  for (TunedRow row : pairOf(8, 32, 16, 16)) {
    row.scheme = "bf16", row.schedule.stages = 3;
    rows.push_back(row);
  }
  const auto served =
      servedRanges(rows, p, engines, its, engines, h100(), 4096);
  EXPECT_EQ(joined(served), (std::vector<TunedRange>{{8, 32, 16}}));
  p.minTokens = 8, p.maxTokens = 20, p.tileRows = 16;
  const TunedRow *row = findTuned(rows, p, engines, h100());
  ASSERT_TRUE(row);
  EXPECT_EQ(row->scheme, "bf16");
}

TEST(Tuned, RowsAreReadAsTheyAreWritten) {
  std::string roles = rangeRow("[8, 32]", "16");
  roles.replace(roles.find("mma_sync"), 8, "wgmma");
  const std::string warps = R"("warps": [1, 4])";
  roles.replace(roles.find(warps), warps.size(),
                R"("producer_warps": 4, "consumer_warps": 8, "registers":)"
                R"( [56, 224], "ctas_per_sm": 1, "swap": false)");
  auto rows = rowsOf(rangeRow("[8, 32]", "16") + "," + roles);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].microseconds, 2.5);
  EXPECT_EQ(rows[0].noise, 0.01);
  EXPECT_FALSE(rows[1].schedule.roles().swap);
  const std::string text = printTuned(rows);
  auto again = parseTuned(text, "t.json");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(printTuned(*again), text);
  for (size_t i = 0; i < rows.size(); ++i)
    EXPECT_EQ((*again)[i].schedule, rows[i].schedule);
}

/// The first and last token count of each range, and of a row of version 1.
TEST(Tuned, TokenCountsAreOfARangeUpToItsEnds) {
  const auto rows =
      rowsOf(rangeRow("[16, 16]", "16") + "," + rangeRow("[8, 32]", "16") +
             "," + rangeRow("[16, 20]", "64"));
  EXPECT_EQ(rangesBeside(rows, problem(), h100()),
            "rows for 8 to 32, 16, 16 to 20 tokens");
  EXPECT_TRUE(parseTuned(ranges(rangeRow("[16, 16]", "16", true,
                                         R"("microseconds": 1, "noise": 0)")),
                         "t.json"));
  EXPECT_FALSE(parseTuned(ranges(rangeRow("[1, 15]", "16")), "t.json"));
  const auto single = parseTuned(file(row("32", "1.0")), "t.json");
  ASSERT_TRUE(single) << single.error().message;
  MatmulProblem p = problem();
  for (const auto &[first, last, serves] : {std::tuple(32, 64, true),
                                            {1, 32, true},
                                            {32, 32, true},
                                            {33, 64, false},
                                            {1, 31, false}}) {
    p.minTokens = first, p.maxTokens = last;
    EXPECT_EQ(findTuned(*single, p, {&engines::mma_sync()}, h100()) != nullptr,
              serves)
        << first << " to " << last;
  }
}

TEST(Tuned, WrongFieldsOfVersionTwoAreNamed) {
  auto said = [](const std::string &text) {
    return "measured schedules 't.json': rows[0]." + text;
  };
  EXPECT_EQ(errorOf(ranges(rangeRow("[32, 8]", "16"))),
            said("tokens: expected [first, last] with first <= last, got an "
                 "array"));
  EXPECT_EQ(errorOf(ranges(rangeRow("[17, 32]", "16"))),
            said("measured.tokens: expected one of the row's 17 to 32 tokens, "
                 "got the number 16"));
  EXPECT_EQ(errorOf(ranges(
                rangeRow("[8, 32]", "16", true, R"("microseconds": 2.5)"))),
            said("measured.noise: expected a number of at least 0, got "
                 "nothing"));
  EXPECT_EQ(errorOf(ranges(row("8", "1.0"))),
            said("tokens: expected 2 integers, got nothing"));
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
  EXPECT_EQ(
      errorOf("{}"),
      said("expected a file that moec tune has written (\"tuned\": 2), got one "
           "without \"tuned\""));
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
