//===- KnownGoodTest.cpp - what the table of schedules says ---------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every tile is served by a legal schedule; which one follows what was
// measured.
//
//===----------------------------------------------------------------------===//

#include "compiler/matmul/Engine.h"
#include "test/compiler/unit/ScheduleTesting.h"

#include <gtest/gtest.h>

using namespace moec;
using namespace moec::compiler;
using namespace moec::test;

TEST(KnownGood, TheTableSaysWhichEngineServesATile) {
  const Engines both = {&engines::wgmma(), &engines::mma_sync()};
  auto engineFor = [&](int64_t tileRows) {
    return knownGood(gateUp(1, 512, tileRows), both, h100())->engineName();
  };
  EXPECT_EQ(engineFor(16), "wgmma");
  EXPECT_EQ(engineFor(64), "wgmma");
  EXPECT_EQ(engineFor(256), "wgmma");
  // Few rows of a large expert are cut finer.
  MatmulProblem large = gateUp(1, 512, 16);
  large.n = 28672, large.k = 4096;
  EXPECT_EQ(knownGood(large, both, h100())->engineName(), "mma_sync");
  large.n = 4096, large.k = 14336,
  large.gather = large.gated = large.first = false;
  EXPECT_EQ(knownGood(large, both, h100())->engineName(), "mma_sync");
  // Tiles share a weight that is larger than the L2.
  MatmulProblem p = gateUp(129, 65536, 256);
  EXPECT_EQ(knownGood(p, both, h100())->groupM, 1);
  p.n = 28672, p.k = 4096;
  EXPECT_EQ(knownGood(p, both, h100())->groupM, 4);
  // Operands of 8 bits are multiplied by wgmma as they are.
  for (const TileRule &rule : findEngine("wgmma")->tileRules())
    if (rule.when.elementBytes == 1 && !*rule.when.addsFast) {
      MatmulProblem bytes = ofBytes(gateUp(1, 512, rule.then.rows));
      EXPECT_EQ(knownGood(bytes, both, h100())->engineName(), "wgmma");
    }
  // Tiles are larger if their sums need no totals; the expert's weight of a
  // large one is shared.
  MatmulProblem fast = ofBytes(gateUp(1024, 65536, 192));
  EXPECT_FALSE(knownGood(fast, both, h100()));
  fast.groupScales = false, fast.addsFast = true;
  EXPECT_EQ(knownGood(fast, both, h100())->groupM, 1);
  fast.n = 28672, fast.k = 4096;
  EXPECT_EQ(knownGood(fast, both, h100())->groupM, 4);
  // Forced, each serves all tiles of its rules.
  for (const Engine *engine : both)
    for (const TileRule &rule : engine->tileRules())
      if (rule.when.elementBytes != 1)
        for (int64_t resultBytes : {2, 4})
          for (bool gated : {false, true}) {
            MatmulProblem p = gateUp(1, 512, rule.then.rows);
            p.gated = p.gather = p.first = gated;
            p.resultBytes = resultBytes;
            auto s = knownGood(p, {engine}, h100());
            ASSERT_TRUE(s) << engine->row.name << rule.then.rows;
            EXPECT_EQ(s->engine, &engine->row);
            EXPECT_EQ(whyIllegal(p, *s, h100()), std::nullopt) << describe(*s);
          }
}

TEST(KnownGood, ShortRowsOfTheSecondMatmulAreMultipliedBesideAnEpilogue) {
  // Two CTAs, each with a warpgroup of 128 weight rows.
  auto isWhole = [&](const MatmulProblem &p) {
    std::optional<Schedule> s = knownGood(p, {&engines::wgmma()}, h100());
    EXPECT_TRUE(s);
    EXPECT_EQ(whyIllegal(p, *s, h100()), std::nullopt) << describe(*s);
    return s->ctasPerSm == 2 && rowsOfWarpgroup(*s) == 128;
  };
  for (bool groups : {false, true}) {
    MatmulProblem down = ofBytes(gateUp(1024, 65536, 128));
    down.gated = down.gather = down.first = false;
    down.groupScales = groups;
    down.resultBytes = 2;
    down.n = 2048, down.k = 768;
    EXPECT_FALSE(isWhole(down));
    down.tileRows = 64;
    EXPECT_FALSE(isWhole(down));
    down.n = 7168, down.k = 256;
    EXPECT_TRUE(isWhole(down));
    down.tileRows = 128;
    EXPECT_TRUE(isWhole(down));
    // Not those of a large expert, and none of the first matmul.
    down.n = 4096, down.k = 14336;
    EXPECT_FALSE(isWhole(down));
    MatmulProblem first = ofBytes(gateUp(1024, 65536, 128));
    first.groupScales = groups;
    EXPECT_FALSE(isWhole(first));
  }
}

TEST(KnownGood, ScalesOfGroupsTakeTokensAsRows) {
  MatmulProblem p = ofBytes(gateUp(1, 128, 128));
  Schedule s = *knownGood(p, {&engines::wgmma()}, h100());
  EXPECT_FALSE(s.roles().swap);
  EXPECT_EQ(describe(s), "wgmma 128x128x128 stages 6 warps 4+8 of tokens");
  // A ring of 6 stages, a staging tile of 8 tokens for each of 8 warps, two
  // slots, a scale of each token of each stage, and 16 barriers.
  EXPECT_EQ(sharedBytes(p, s), 6 * (256 * 128 + 128 * 4 + 16) +
                                   8 * 8 * (64 + 8) * 4 + 2 * 16 + 16 * 8);
  EXPECT_EQ(whyIllegal(p, s, h100()), std::nullopt);
  auto why = [&](auto change) {
    MatmulProblem other = p;
    Schedule changed = s;
    change(other, changed);
    return whyIllegal(other, changed, h100());
  };
  using Problem = MatmulProblem;
  // Three warpgroups of 64 tokens.
  EXPECT_EQ(why([](Problem &p, Schedule &s) {
              p.tileRows = s.tileM = 192;
              s.stages = 4;
              setRoles(s, 64, /*swap=*/false);
            }),
            std::nullopt);
  EXPECT_EQ(why([](Problem &p, Schedule &s) { p.tileRows = s.tileM = 256; }),
            "tile m 256 is no multiple of 16 up to 192");
  EXPECT_EQ(why([](Problem &, Schedule &s) { s.roles().consumerWarps = 12; }),
            "4 producing and 12 consuming warps; tile m 128 takes 4 and 8");
  EXPECT_EQ(why([](Problem &p, Schedule &s) {
              p.tileRows = s.tileM = 96;
              s.roles().consumerWarps = 6;
            }),
            "tokens are rows of an instruction by 64, not 96");
  EXPECT_EQ(why([](Problem &, Schedule &s) { s.tileN = 64; }),
            "tile n 64; tokens as rows of an instruction take 128");
  const std::string swapped =
      "operands must be swapped, except with scales per group along k and a "
      "result that is not quantized";
  EXPECT_EQ(why([](Problem &p, Schedule &) { p.groupScales = false; }),
            swapped);
  EXPECT_EQ(why([](Problem &p, Schedule &) { p.groupColumns = 128; }), swapped);
  // Few tokens an expert, and scales of whole rows, are swapped.
  p.tileRows = 64;
  EXPECT_TRUE(knownGood(p, {&engines::wgmma()}, h100())->roles().swap);
  p.tileRows = 128, p.groupScales = false;
  EXPECT_TRUE(knownGood(p, {&engines::wgmma()}, h100())->roles().swap);
}

/// Tiles of 256 weight rows serve many rows an expert in the mean.
TEST(KnownGood, ManyRowsTakeWideTiles) {
  // 8 of 128 experts: 8 rows in the mean at 128 tokens.
  MatmulProblem p = ofBytes(gateUp(1025, 65536, 128));
  const std::string wide = "wgmma 128x256x128 stages 4 warps 4+8 of tokens";
  const auto chosen = [&] {
    return describe(*knownGood(p, {&engines::wgmma()}, h100()));
  };
  EXPECT_EQ(chosen(), wide);
  // Quantized groups are staged as codes, one of 8 tokens for each of 8 warps.
  p.groupColumns = kScaledColumns;
  EXPECT_EQ(chosen(), wide);
  EXPECT_EQ(sharedBytes(p, *knownGood(p, {&engines::wgmma()}, h100())),
            4 * (384 * 128 + 128 * 4 + 16) + 8 * 8 * (128 + 16) + 2 * 16 +
                12 * 8);
  p.groupColumns = 0;
  // Scales of whole rows: from 128 rows on. A stage may be a tile's first.
  p.groupScales = false;
  EXPECT_EQ(chosen(), wide);
  EXPECT_EQ(sharedBytes(p, *knownGood(p, {&engines::wgmma()}, h100())),
            4 * (384 * 128 + 128 * 4) + 8 * 8 * (64 + 8) * 4 + 2 * 16 + 12 * 8);
  p.maxTokens = 2048;
  EXPECT_NE(chosen(), wide);
  p.maxTokens = 2049;
  EXPECT_EQ(chosen(), wide);
  // So do groups along k where the first weight is large.
  p.groupScales = true, p.n = 28672, p.k = 4096, p.maxTokens = 2048;
  EXPECT_NE(chosen(), wide);
  p.maxTokens = 2049;
  EXPECT_EQ(chosen(), wide);
  p.gather = false;
  EXPECT_NE(chosen(), wide);
}

TEST(KnownGood, WideTilesAreRefusedWithAReason) {
  MatmulProblem p = ofBytes(gateUp(1025, 65536, 128));
  const Schedule wide = *knownGood(p, {&engines::wgmma()}, h100());
  EXPECT_EQ(wide.tileN, 256);
  auto why = [&](auto change) {
    MatmulProblem other = p;
    Schedule changed = wide;
    change(other, changed);
    return whyIllegal(other, changed, h100());
  };
  using Problem = MatmulProblem;
  EXPECT_EQ(why([](Problem &, Schedule &) {}), std::nullopt);
  EXPECT_EQ(why([](Problem &p, Schedule &s) {
              p.tileRows = s.tileM = 64;
              setRoles(s, 64, /*swap=*/false);
            }),
            "tile m 64; 128 tokens as rows of an instruction take 256 weight "
            "rows");
  EXPECT_EQ(why([](Problem &p, Schedule &) { p.quantizesOtherwise = true; }),
            "operands must be swapped, except 8-bit operands with a result "
            "that is not quantized, or quantized by groups");
  EXPECT_EQ(
      why([](Problem &p, Schedule &) { p.groupColumns = kScaledColumns; }),
      std::nullopt);
  // Biases and results of 32 bits take registers.
  EXPECT_EQ(
      why([](Problem &p, Schedule &) { p.resultBytes = 4, p.hasBias = true; }),
      "192 sums, totals and scales per thread; 224 registers hold 176");
}

TEST(KnownGood, RowsByExpertTakeSwappedWarpgroupsOf64) {
  // The first matmul of rows that come by expert reads x as it is.
  auto byExpert = [](int64_t tileRows, int64_t n, int64_t k) {
    MatmulProblem p = ofBytes(gateUp(1024, 65536, tileRows));
    p.gather = false;
    p.n = n, p.k = k;
    return p;
  };
  for (int64_t tileRows : {64, 128})
    for (auto [n, k] : {std::pair(1536, 2048), {512, 256}, {28672, 4096}}) {
      MatmulProblem p = byExpert(tileRows, n, k);
      std::optional<Schedule> s = knownGood(p, {&engines::wgmma()}, h100());
      ASSERT_TRUE(s) << tileRows;
      EXPECT_TRUE(s->roles().swap) << describe(*s);
      EXPECT_EQ(rowsOfWarpgroup(*s), 64) << describe(*s);
      EXPECT_EQ(whyIllegal(p, *s, h100()), std::nullopt) << describe(*s);
      // Gathered, large tiles have tokens as rows.
      p.gather = true;
      EXPECT_EQ(knownGood(p, {&engines::wgmma()}, h100())->roles().swap,
                tileRows == 64);
    }
  // A large weight is shared by tiles here as well.
  EXPECT_EQ(knownGood(byExpert(128, 28672, 4096), {&engines::wgmma()}, h100())
                ->groupM,
            4);
  // Their second matmul is that of sorted rows.
  MatmulProblem down = byExpert(128, 7168, 256);
  down.first = down.gated = false;
  down.resultBytes = 2;
  EXPECT_EQ(rowsOfWarpgroup(*knownGood(down, {&engines::wgmma()}, h100())),
            128);
}

TEST(KnownGood, ServesEveryTileAndIsLegal) {
  for (int64_t tileRows : {16, 32, 64, 128})
    for (bool first : {true, false}) {
      MatmulProblem p = gateUp(1, 512, tileRows);
      p.gather = p.gated = p.first = first;
      auto s = knownGood(p, {&engines::mma_sync()}, h100());
      ASSERT_TRUE(s) << tileRows;
      EXPECT_EQ(whyIllegal(p, *s, h100()), std::nullopt) << describe(*s);
      EXPECT_EQ(s->source, "default");
      EXPECT_GE(s->ctasPerSm, 1);
    }
}

TEST(KnownGood, FallsBackWhereSharedMemoryIsSmall) {
  Hardware ada = h100();
  ada.arch = "sm_89";
  ada.sharedPerBlock = 99 << 10;
  ada.sharedPerSm = 100 << 10;
  MatmulProblem p = gateUp(1024, 65536, 128);
  p.gather = p.gated = p.first = false;
  auto s = knownGood(p, {&engines::mma_sync()}, ada);
  EXPECT_TRUE(!s || !whyIllegal(p, *s, ada));
  EXPECT_FALSE(knownGood(p, {&engines::simt()}, ada));
  for (int64_t bytes : {1, 4}) {
    p.elementBytes = bytes;
    EXPECT_FALSE(knownGood(p, {&engines::mma_sync()}, ada));
  }
}

TEST(Split, OneTileInFourCtasOfFewExperts) {
  // 8 experts of 512 weight rows: 32 tiles of 128, on 132 multiprocessors.
  MatmulProblem p = ofBytes(gateUp(2, 128, 16));
  p.n = 512, p.k = 7168;
  p.experts = p.localExperts = 256;
  Schedule s;
  s.engine = catalog::find(catalog::kEngines, "wgmma");
  s.tileM = 16, s.tileN = 128, s.tileK = 128;
  setRoles(s);
  auto with = [](auto value, auto change) {
    change(value);
    return value;
  };
  EXPECT_TRUE(engines::wgmma().maySplit(p, s, h100()));
  auto splits = [&](auto change) {
    return engines::wgmma().maySplit(with(p, change), s, h100());
  };
  EXPECT_FALSE(splits([](MatmulProblem &q) { q.n = 640; })); // 40 tiles
  EXPECT_FALSE(splits([](MatmulProblem &q) { q.k = 7 * 128; }));
  EXPECT_FALSE(splits([](MatmulProblem &q) { q.gather = false; }));
  // All tokens may take one expert of a rank that has a part of them.
  EXPECT_TRUE(
      splits([](MatmulProblem &q) { q.n = 4096, q.localExperts = 32; }));
  EXPECT_FALSE(
      splits([](MatmulProblem &q) { q.n = 4352, q.localExperts = 32; }));
  auto splitsBy = [&](auto change) {
    return engines::wgmma().maySplit(p, with(s, change), h100());
  };
  EXPECT_TRUE(splitsBy([](Schedule &q) { q.tileM = 32; }));
  EXPECT_FALSE(splitsBy([](Schedule &q) { q.tileM = 48; }));
  EXPECT_FALSE(splitsBy([](Schedule &q) { q.ctasPerSm = 2; }));
  EXPECT_FALSE(splitsBy([](Schedule &q) { setRoles(q, 128); }));
  // 64 tiles.
  EXPECT_FALSE(splitsBy([](Schedule &q) { q.tileN = 64, setRoles(q); }));
  // A tile of groups that are quantized is several, one after the other.
  EXPECT_FALSE(splits([](MatmulProblem &q) { q.groupColumns = 128; }));
}

/// Each condition of a rule is about one member of a problem, holds at its
/// limit, and not one beyond it.
TEST(Rules, EachConditionHoldsUpToItsLimit) {
  MatmulProblem base = gateUp(1, 512, 64);
  base.n = 1536, base.k = 2048;
  struct Row {
    const char *name;
    When when;
    void (*breaks)(MatmulProblem &);
  };
  const Row rows[] = {
      {"elementBytes",
       {.elementBytes = 2},
       [](auto &p) { p.elementBytes = 1; }},
      {"tileRows", {.tileRows = 64}, [](auto &p) { p.tileRows = 128; }},
      {"first", {.first = true}, [](auto &p) { p.first = false; }},
      {"groupScales",
       {.groupScales = false},
       [](auto &p) { p.groupScales = true; }},
      {"addsFast", {.addsFast = false}, [](auto &p) { p.addsFast = true; }},
      {"quantizesGroups",
       {.quantizesGroups = false},
       [](auto &p) { p.groupColumns = 128; }},
      {"rowsByExpert",
       {.rowsByExpert = false},
       [](auto &p) { p.gather = false; }},
      {"leastN", {.leastN = 1536}, [](auto &p) { p.n = 1535; }},
      {"leastK", {.leastK = 2048}, [](auto &p) { p.k = 2047; }},
      {"wholeN", {.wholeN = 512}, [](auto &p) { p.n += 256; }},
      {"firstAbove",
       {.firstAbove = 1536 * 2048 * 2 - 1},
       [](auto &p) { p.n = 1535, p.k = 2048; }},
      {"firstUpTo",
       {.firstUpTo = 1536 * 2048 * 2},
       [](auto &p) { p.n = 1537; }},
      {"rowBytesUpTo", {.rowBytesUpTo = 4096}, [](auto &p) { p.k = 2049; }},
      {"registers",
       {.registers = Registers::None},
       [](auto &p) { p.registers = Registers::Many; }},
  };
  const Engine &engine = engines::wgmma();
  EXPECT_TRUE(engine.serves({}, base));
  for (const Row &row : rows) {
    EXPECT_TRUE(engine.serves(row.when, base)) << row.name;
    MatmulProblem other = base;
    row.breaks(other);
    EXPECT_TRUE(engine.serves({}, other)) << row.name;
    EXPECT_FALSE(engine.serves(row.when, other)) << row.name;
  }
  // Above the size of the first weight, not at it.
  EXPECT_FALSE(engine.serves({.firstAbove = 1536 * 2048 * 2}, base));
  // The second weight has half of the first one's elements.
  MatmulProblem second = base;
  second.first = false;
  EXPECT_FALSE(engine.serves({.firstUpTo = 1536 * 2048 * 2}, second));
  EXPECT_TRUE(engine.serves({.firstUpTo = 2 * 1536 * 2048 * 2}, second));
}
