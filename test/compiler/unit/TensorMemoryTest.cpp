//===- TensorMemoryTest.cpp - schedules with sums in tensor memory --------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Engine tcgen05: what its tiles need, which are legal, and what others say.
//
//===----------------------------------------------------------------------===//

#include "compiler/matmul/CostModel.h"
#include "compiler/matmul/Engine.h"
#include "test/compiler/unit/ScheduleTesting.h"

#include <gtest/gtest.h>

using namespace moec;
using namespace moec::compiler;
using namespace moec::test;

static Hardware b200() {
  Hardware hardware;
  EXPECT_TRUE(findHardware("sm_100f", "b200", hardware));
  return hardware;
}

/// Two CTAs of a warpgroup each.
static Schedule twoCtas(int64_t tileRows, int64_t elementBytes) {
  Schedule s;
  s.engine = catalog::find(catalog::kEngines, "tcgen05");
  s.tileM = tileRows, s.tileN = 128, s.tileK = 128 / elementBytes;
  s.stages = 3, s.ctasPerSm = 2;
  setRoles(s, 128);
  return s;
}

TEST(TensorMemory, AllCandidatesAreLegalAndFit) {
  for (int64_t tileRows : {16, 32, 48, 64, 96, 128})
    for (bool bytes : {false, true})
      for (bool groups : {false, true}) {
        if (groups && !bytes)
          continue;
        MatmulProblem p = gateUp(1, 512, tileRows);
        if (bytes)
          p = ofBytes(p), p.groupScales = groups;
        const std::vector<Schedule> all =
            engines::tcgen05().candidates(p, b200());
        EXPECT_FALSE(all.empty()) << tileRows;
        for (const Schedule &s : all) {
          EXPECT_EQ(whyIllegal(p, s, b200()), std::nullopt) << describe(s);
          const int64_t columns = engines::tcgen05().tensorColumns(p, s);
          EXPECT_GE(columns, s.tileN / 128 * tileRows * (groups ? 2 : 1));
          EXPECT_EQ(columns & (columns - 1), 0) << columns;
          EXPECT_LE(columns * s.ctasPerSm, 512) << describe(s);
          EXPECT_TRUE(s.roles().swap) << describe(s);
          EXPECT_GT(estimate(p, s, b200(), 64).seconds, 0);
        }
      }
  EXPECT_EQ(engines::wgmma().tensorColumns(gateUp(1, 64, 64), roles(64)), 0);
}

TEST(TensorMemory, SharedMemoryIsThatOfTheTemplates) {
  // The sizes that test/templates/configs/tcgen05_*.cu assert.
  MatmulProblem plain = gateUp(1, 512, 64);
  Schedule s = twoCtas(64, 2);
  s.stages = 4;
  EXPECT_EQ(sharedBytes(plain, s), 107664);
  EXPECT_EQ(engines::tcgen05().mma(plain, s, "moe::bf16", false),
            "moe::mma::Tcgen05<moe::bf16, false, 2>");
  MatmulProblem block = ofBytes(gateUp(1, 512, 96));
  block.resultBytes = 2;
  s = twoCtas(96, 1);
  EXPECT_EQ(sharedBytes(block, s), 96576);
  EXPECT_EQ(engines::tcgen05().tensorColumns(block, s), 256);
  EXPECT_EQ(engines::tcgen05().mma(block, s, "moe::e4m3", false),
            "moe::mma::Tcgen05<moe::e4m3, false, 2>");
  // Without scales along k sums are f32 over all of it.
  block.groupScales = false;
  EXPECT_EQ(engines::tcgen05().tensorColumns(block, s), 128);
  EXPECT_EQ(engines::tcgen05().mma(block, s, "moe::e4m3", false),
            "moe::mma::Tcgen05<moe::e4m3, true, 2>");
}

TEST(TensorMemory, ScalesOfBlocksHaveColumnsOfEachStage) {
  // Bytes of k that share a scale in mxfp8, mxfp4 and nvfp4.
  for (int64_t blockBytes : {32, 16, 8}) {
    for (int64_t tileRows : {16, 32, 64, 96, 128}) {
      MatmulProblem p = gateUp(1, 512, tileRows);
      p.elementBytes = 1, p.blockBytes = blockBytes, p.resultBytes = 4;
      // Tile rules choose 32, 64 and 128 rows.
      if (tileRows >= 32 && tileRows != 96)
        EXPECT_TRUE(knownGood(p, {&engines::tcgen05()}, b200())) << tileRows;
      const std::vector<Schedule> all =
          engines::tcgen05().candidates(p, b200());
      EXPECT_FALSE(all.empty()) << tileRows;
      for (const Schedule &s : all) {
        EXPECT_EQ(s.tileN, 128);
        const int64_t columns = engines::tcgen05().tensorColumns(p, s);
        EXPECT_GE(columns, tileRows + s.stages * 256 / blockBytes);
        EXPECT_LE(columns * s.ctasPerSm, 512) << describe(s);
      }
    }
  }
  MatmulProblem p = gateUp(1, 512, 64);
  p.elementBytes = 1, p.blockBytes = 8, p.resultBytes = 4;
  Schedule s = twoCtas(64, 1);
  EXPECT_EQ(sharedBytes(p, s), 94848);
  EXPECT_EQ(engines::tcgen05().tensorColumns(p, s), 256);
  EXPECT_EQ(engines::tcgen05().mma(p, s, "a, b, c", false),
            "moe::mma::Tcgen05Scaled<a, b, c>");
  p.blockBytes = 32;
  EXPECT_EQ(sharedBytes(p, s), 85632);
  EXPECT_EQ(engines::tcgen05().tensorColumns(p, s), 128);
  s.tileN = 256;
  setRoles(s, 128);
  EXPECT_EQ(whyIllegal(p, s, b200()),
            "tile n 256; with scales of blocks 128 is possible");
}

TEST(TensorMemory, IllegalSchedulesSayWhy) {
  MatmulProblem p = gateUp(1, 512, 64);
  const Schedule s = twoCtas(64, 2);
  ASSERT_EQ(whyIllegal(p, s, b200()), std::nullopt);
  const auto with = [&](auto change) {
    Schedule other = s;
    change(other);
    return whyIllegal(p, other, b200()).value_or("");
  };
  EXPECT_EQ(with([](Schedule &o) { o.roles().swap = false; }),
            "weight rows are the rows of an instruction");
  EXPECT_EQ(with([](Schedule &o) { o.tileN = 64; }),
            "tile n 64; 128 and 256 are possible");
  EXPECT_EQ(with([](Schedule &o) { setRoles(o, 64); }),
            "64 weight rows per warpgroup; engine 'tcgen05' takes 128");
  EXPECT_EQ(with([](Schedule &o) { o.tileK = 32; }),
            "tile k 32 is not 128 bytes of a row");
  EXPECT_EQ(with([](Schedule &o) { o.warps = WarpGrid{1, 4}; }),
            "engine 'tcgen05' needs warps with roles");
  EXPECT_EQ(with([](Schedule &o) { o.stages = 11; }),
            "11 stages; 2 to 10 are possible");
  p.tileRows = 72;
  EXPECT_EQ(with([](Schedule &o) { o.tileM = 72; }),
            "tile m 72 is no multiple of 16 up to 128");
  p.tileRows = 144;
  EXPECT_EQ(with([](Schedule &o) { o.tileM = 144; }),
            "tile m 144 is no multiple of 16 up to 128");
  p.tileRows = 128;
  EXPECT_EQ(with([](Schedule &o) { o.tileM = 128, o.ctasPerSm = 5; }),
            "128 columns of tensor memory for each of 5 CTAs; an SM has 512");
  p = ofBytes(gateUp(1, 512, 128));
  EXPECT_EQ(with([](Schedule &o) {
              o.tileM = 128, o.tileK = 128;
              setRoles(o, 128);
            }),
            "192 sums and totals per thread; 216 registers hold 176");
  p.codeBits = 4;
  EXPECT_EQ(with([](Schedule &) {}),
            "engine 'tcgen05' does not convert weights of 4 bits");
}

TEST(TensorMemory, ResultsAreQuantizedByGroupsWhereSumsArePromoted) {
  MatmulProblem p = ofBytes(gateUp(1, 512, 64));
  p.groupColumns = 128;
  EXPECT_EQ(engines::tcgen05().whyGroupsApart(p), std::nullopt);
  const std::optional<Schedule> s = knownGood(p, {&engines::tcgen05()}, b200());
  ASSERT_TRUE(s);
  EXPECT_EQ(whyIllegal(p, *s, b200()), std::nullopt);
  EXPECT_EQ(s->tileN, 128);
  EXPECT_EQ(s->ctasPerSm, 2);
  MatmulProblem tall = p;
  tall.tileRows = 128;
  EXPECT_EQ(engines::tcgen05().whyGroupsApart(tall),
            "engine 'tcgen05' quantizes groups in tiles of up to 64 rows");
  p.groupScales = false;
  EXPECT_EQ(engines::tcgen05().whyGroupsApart(p),
            "engine 'tcgen05' quantizes groups where sums are promoted");
  EXPECT_EQ(whyIllegal(p, *s, b200()),
            "engine 'tcgen05' quantizes groups where sums are promoted");
}

TEST(TensorMemory, EachTileHasAGoodSchedule) {
  for (const TileRule &rule : engines::tcgen05().tileRules())
    for (bool bytes : {false, true})
      for (bool groups : {false, true})
        for (bool first : {false, true})
          for (int64_t resultBytes : {2, 4}) {
            MatmulProblem p = gateUp(1, 4096, rule.then.rows);
            if (bytes)
              p = ofBytes(p);
            p.groupScales = bytes && groups;
            p.first = p.gated = p.gather = first;
            p.resultBytes = resultBytes;
            const std::optional<Schedule> s =
                knownGood(p, {&engines::tcgen05()}, b200());
            ASSERT_TRUE(s) << rule.then.rows;
            EXPECT_EQ(whyIllegal(p, *s, b200()), std::nullopt) << describe(*s);
          }
}

TEST(TensorMemory, TwoWarpgroupsShareATileOfTokens) {
  MatmulProblem p = ofBytes(gateUp(1, 512, 128));
  Schedule s = twoCtas(128, 1);
  s.tileN = 256, s.ctasPerSm = 1;
  setRoles(s, 128);
  EXPECT_EQ(s.roles().consumerWarps, 8);
  EXPECT_EQ(whyIllegal(p, s, b200()), std::nullopt);
  EXPECT_EQ(engines::tcgen05().tensorColumns(p, s), 512);
  s.ctasPerSm = 2;
  EXPECT_EQ(whyIllegal(p, s, b200()),
            "512 columns of tensor memory for each of 2 CTAs; an SM has 512");
}

TEST(TensorMemory, SumsOfFewTokensLeaveRegistersToProducers) {
  for (int64_t tileRows : {32, 64, 128}) {
    const std::optional<Schedule> s =
        knownGood(gateUp(1, 512, tileRows), {&engines::tcgen05()}, b200());
    ASSERT_TRUE(s);
    EXPECT_EQ(s->roles().producerRegisters, tileRows <= 64 ? 56 : 40);
    EXPECT_EQ(s->roles().consumerRegisters, tileRows <= 64 ? 200 : 216);
  }
}
