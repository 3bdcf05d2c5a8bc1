//===- CandidatesTest.cpp - which schedules are legal ---------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All candidates are legal, and illegal ones say why.
//
//===----------------------------------------------------------------------===//

#include "compiler/matmul/Engine.h"
#include "test/compiler/unit/ScheduleTesting.h"

#include <gtest/gtest.h>

#include <set>

using namespace moec;
using namespace moec::compiler;
using namespace moec::test;

TEST(SharedMemory, IsARingOfBothTilesOrTheResultStaged) {
  Schedule s;
  s.tileM = 16, s.tileN = 64, s.tileK = 64, s.stages = 4;
  EXPECT_EQ(sharedBytes(gateUp(1, 64, 16), s), 4 * (16 + 64) * 64 * 2);
  MatmulProblem down = gateUp(1, 64, 128);
  down.gated = down.gather = down.first = false;
  down.resultBytes = 4;
  s.tileM = s.tileN = 128, s.tileK = 32, s.stages = 2;
  EXPECT_EQ(sharedBytes(down, s), 128 * (128 * 4 + 16));
}

TEST(Candidates, OperandsOfEightBitsLeaveRoomForTotals) {
  for (int64_t tileRows : {16, 32, 64, 128})
    for (const char *engine : {"wgmma", "mma_sync", "simt"}) {
      MatmulProblem p = gateUp(1, 64, tileRows);
      p.elementType = "f8E4M3FN";
      p.elementBytes = 1;
      p.resultBytes = 4;
      p.groupScales = true;
      auto all = findEngine(engine)->candidates(p, h100());
      EXPECT_FALSE(all.empty()) << engine << " " << tileRows;
      for (const Schedule &s : all) {
        EXPECT_EQ(128 % s.tileK, 0) << describe(s);
        // Roles share registers out: a warpgroup may have twice the sums.
        int64_t workers =
            s.hasRoles() ? 32 * s.roles().consumerWarps : s.threads();
        EXPECT_LE(s.tileM * s.tileN / workers, s.hasRoles() ? 128 : 64)
            << describe(s);
      }
      Schedule deep = all.front();
      deep.tileK = 256;
      EXPECT_TRUE(whyIllegal(p, deep, h100()));
    }
}

TEST(Candidates, WeightsInFragmentsComeInBlocks) {
  for (int64_t tileRows : {16, 64, 128})
    for (int64_t bits : {4, 8}) {
      MatmulProblem p = gateUp(1, 64, tileRows);
      p.codeBits = bits, p.inFragments = true;
      p.numberBytes = 3, p.groupK = 16;
      auto all = engines::mma_sync().candidates(p, h100());
      EXPECT_FALSE(all.empty()) << tileRows;
      for (const Schedule &s : all) {
        EXPECT_EQ(s.tileK, 64);
        EXPECT_EQ(s.tileN % 64, 0);
        EXPECT_EQ(s.tileN / s.grid().n % 16, 0);
      }
      auto good = knownGood(p, {&engines::mma_sync()}, h100());
      ASSERT_TRUE(good);
      EXPECT_EQ(whyIllegal(p, *good, h100()), std::nullopt);
      // Tokens, codes, and the numbers of a group of each 16 columns.
      EXPECT_EQ(sharedBytes(p, *good),
                good->stages * good->tileK *
                    (good->tileM * 2 + good->tileN * (2 * bits + 3) / 16));

      Schedule flat = *good;
      flat.tileK = 32;
      EXPECT_EQ(whyIllegal(p, flat, h100()),
                "tile n " + std::to_string(flat.tileN) +
                    " and tile k 32; weights in fragments take multiples of "
                    "64");
      Schedule deep = *good;
      deep.tileK = 128;
      MatmulProblem odd = p;
      odd.groupK = 192;
      EXPECT_EQ(whyIllegal(odd, deep, h100()),
                "tile k 128 and groups of 192; the one must divide the other");
      Schedule other = *good;
      other.engine = catalog::find(catalog::kEngines, "simt");
      EXPECT_EQ(whyIllegal(p, other, h100()),
                "engine 'simt' does not read weights in fragments");
      p.n += 32;
      EXPECT_EQ(whyIllegal(p, *good, h100()),
                "weights of " + std::to_string(p.n) + " by " +
                    std::to_string(p.k) +
                    "; multiples of 64 by 64 are possible");
    }
  MatmulProblem rows = gateUp(1, 64, 16);
  rows.codeBits = 4;
  Schedule s = roles(16, 1);
  s.engine = catalog::find(catalog::kEngines, "wgmma_rs");
  EXPECT_EQ(whyIllegal(rows, s, h100()),
            "engine 'wgmma_rs' does not read weights in rows");
}

TEST(Candidates, AllAreLegalForEveryTileAndEngine) {
  for (int64_t tileRows : {16, 32, 64, 128}) {
    for (const char *engine : {"wgmma", "mma_sync", "simt"}) {
      MatmulProblem p = gateUp(1, 64, tileRows);
      if (std::string(engine) == "simt")
        p.elementBytes = 4, p.elementType = "f32";
      auto all = findEngine(engine)->candidates(p, h100());
      EXPECT_FALSE(all.empty()) << engine << " " << tileRows;
      for (const Schedule &s : all) {
        EXPECT_FALSE(whyIllegal(p, s, h100())) << describe(s);
        EXPECT_LE(sharedBytes(p, s), h100().sharedPerBlock);
        EXPECT_GE(s.ctasPerSm, 1) << describe(s);
        EXPECT_EQ(s.tileM, tileRows);
      }
    }
  }
}

/// Small tiles leave room for up to three CTAs of a multiprocessor.
TEST(Candidates, WarpsWithRolesShareAMultiprocessor) {
  std::set<int64_t> ctas;
  for (const Schedule &s :
       findEngine("wgmma")->candidates(gateUp(1, 64, 16), h100()))
    ctas.insert(s.ctasPerSm);
  EXPECT_EQ(ctas, (std::set<int64_t>{1, 2, 3}));
}

TEST(Candidates, FitTheSmallestSharedMemoryOfTheTable) {
  Hardware turing;
  turing.arch = "sm_75";
  turing.sharedPerBlock = turing.sharedPerSm = 64 << 10;
  turing.asyncCopy = false;
  for (int64_t tileRows : {16, 32, 64, 128})
    EXPECT_FALSE(
        engines::simt().candidates(gateUp(1, 64, tileRows), turing).empty());
}

TEST(Candidates, ScalesOfBlocksComeWithTheStages) {
  Hardware rtx;
  ASSERT_TRUE(findHardware("sm_120f", "rtx_5090", rtx));
  for (int64_t tileRows : {16, 64, 128})
    for (int64_t blockBytes : {32, 16, 8}) {
      MatmulProblem p = gateUp(1, 64, tileRows);
      p.elementBytes = 1, p.blockBytes = blockBytes;
      auto all = engines::mma_sync_scaled().candidates(p, rtx);
      EXPECT_FALSE(all.empty()) << tileRows;
      for (const Schedule &s : all) {
        EXPECT_EQ(s.tileK, 128);
        EXPECT_LE(sharedBytes(p, s), 101376) << describe(s);
        EXPECT_GE(sharedBytes(p, s),
                  s.stages * (s.tileM + s.tileN) * (128 + 128 / blockBytes));
      }
      Schedule narrow = all.front();
      narrow.tileK = 64;
      EXPECT_EQ(whyIllegal(p, narrow, rtx),
                "tile k 64; engine 'mma_sync_scaled' takes 128 bytes");
      Schedule odd = all.front();
      odd.warps = WarpGrid{1, 2}, odd.tileN = 96;
      EXPECT_EQ(whyIllegal(p, odd, rtx),
                "a warp's tile of " + std::to_string(tileRows) +
                    "x48; with scales of blocks its sides are 16 or multiples "
                    "of 32");
      p.blockBytes = 0;
      EXPECT_EQ(whyIllegal(p, all.front(), rtx),
                "engine 'mma_sync_scaled' multiplies operands with the scales "
                "of blocks of both");
    }
}

TEST(Candidates, IllegalSchedulesSayWhy) {
  MatmulProblem p = gateUp(1, 64, 16);
  Schedule s;
  s.tileM = 16, s.tileN = 64, s.tileK = 64, s.stages = 4;
  EXPECT_EQ(whyIllegal(p, s, h100()), std::nullopt);
  Schedule other = s;
  other.tileM = 32;
  EXPECT_EQ(whyIllegal(p, other, h100()),
            "tile m 32 differs from the variant's tile rows 16");
  other = s;
  other.grid().m = 2;
  EXPECT_EQ(whyIllegal(p, other, h100()),
            "a warp's tile of 16x64 over 2x4 warps is no multiple of 16x16");
  other = s;
  other.engine = catalog::find(catalog::kEngines, "wgmma");
  EXPECT_EQ(whyIllegal(p, other, h100()),
            "engine 'wgmma' needs warps with roles");
  other = s;
  other.stages = 9;
  EXPECT_EQ(whyIllegal(p, other, h100()), "9 stages; 2 to 8 are possible");
  other = s;
  other.groupM = 1024;
  EXPECT_EQ(whyIllegal(p, other, h100()), std::nullopt);
  other.groupM = 1025;
  EXPECT_EQ(whyIllegal(p, other, h100()),
            "a group of 1025 m tiles; up to 1024 are possible");
  other = s;
  other.tileK = 24;
  EXPECT_EQ(whyIllegal(p, other, h100()), "tile k 24 is no multiple of 32");
  other = s;
  other.tileN = 256, other.tileK = 128, other.stages = 8;
  EXPECT_EQ(whyIllegal(p, other, h100()),
            "557056 bytes of shared memory; sm_90a has 232448");
  MatmulProblem large = gateUp(1, 64, 128);
  other = s;
  other.tileM = 128, other.tileN = 256, other.tileK = 32;
  EXPECT_EQ(whyIllegal(large, other, h100()),
            "256 accumulators per thread; at most 128 fit");
  other = s;
  other.tileK = 128, other.grid().n = 2;
  EXPECT_EQ(whyIllegal(p, other, h100()),
            "64 threads cannot share rows of 256 bytes evenly");
  MatmulProblem slabs = gateUp(1, 64, 160);
  slabs.codeBits = 4, slabs.inFragments = true;
  other = s;
  other.tileM = 160;
  EXPECT_EQ(whyIllegal(slabs, other, h100()),
            "a warp's tile of 160x16; with weights in fragments it is of "
            "16x16 blocks, and 3 equal parts share its rows");
  other.tileM = slabs.tileRows = 144;
  EXPECT_EQ(whyIllegal(slabs, other, h100()), std::nullopt);
  Schedule narrow = roles(16);
  narrow.tileN = 64;
  setRoles(narrow, 128);
  EXPECT_EQ(whyIllegal(p, narrow, h100()),
            "2 consuming warps; whole warpgroups of 4 are possible");
}

TEST(SharedMemory, WithRolesIsARingAStagingTileAndBarriers) {
  // 4 stages of 256 + 128 rows of 128 bytes, 64 tokens of 32 columns and 16
  // bytes for each of two warpgroups, two slots and 12 barriers.
  EXPECT_EQ(sharedBytes(gateUp(1024, 65536, 256), roles(256)),
            4 * 384 * 128 + 2 * 64 * (32 * 2 + 16) + 2 * 16 + 12 * 8);
  MatmulProblem down = gateUp(1, 128, 16);
  down.gated = down.gather = down.first = false;
  down.resultBytes = 4;
  EXPECT_EQ(sharedBytes(down, roles(16)),
            4 * 144 * 128 + 2 * 16 * (64 * 4 + 16) + 2 * 16 + 12 * 8);
  // A scale of each token of each stage, and room for four of the weights.
  MatmulProblem bytes = ofBytes(gateUp(1024, 65536, 128));
  int64_t all = 4 * 256 * 128 + 2 * 32 * (32 * 4 + 16) + 2 * 16 + 12 * 8;
  EXPECT_EQ(sharedBytes(bytes, roles(128, 1)), all + 4 * (128 * 4 + 16));
  bytes.groupScales = false;
  EXPECT_EQ(sharedBytes(bytes, roles(128, 1)), all);
  // A group of 128 columns of each token, and the largest ring beside it.
  bytes.groupScales = true, bytes.groupColumns = kScaledColumns;
  Schedule five = roles(128, 1);
  five.stages = 5;
  EXPECT_EQ(sharedBytes(bytes, five),
            5 * (256 * 128 + 128 * 4 + 16) + 128 * 128 * 4 + 2 * 16 + 14 * 8);
  EXPECT_EQ(whyIllegal(bytes, five, h100()), std::nullopt);
}

TEST(Candidates, GroupsAreTakenWhole) {
  MatmulProblem p = ofBytes(gateUp(1, 128, 16));
  EXPECT_EQ(takenWeightRows(p, 64), 64);
  p.groupColumns = kScaledColumns;
  EXPECT_EQ(takenWeightRows(p, 64), 256);
  p.gated = false;
  EXPECT_EQ(takenWeightRows(p, 64), 128);
  // Warps without roles have them in one tile.
  Schedule s;
  s.tileM = 16, s.tileN = 64;
  EXPECT_EQ(whyIllegal(p, s, h100()),
            "tile n 64 makes 64 columns; 128 share a scale");
  p.gated = true, p.groupColumns = 32;
  EXPECT_EQ(takenWeightRows(p, 64), 64);
  EXPECT_EQ(whyIllegal(p, s, h100()), std::nullopt);
  EXPECT_EQ(whyIllegal(p, roles(16, 1), h100()),
            "engine 'wgmma' quantizes groups of 128 columns, not 32");
}

TEST(Candidates, WhyGroupsAreQuantizedApart) {
  const auto why = [](const char *engine, int64_t tileRows, int64_t columns,
                      bool gated = true) {
    MatmulProblem p;
    p.tileRows = tileRows, p.groupColumns = columns, p.gated = gated;
    return findEngine(engine)->whyGroupsApart(p);
  };
  EXPECT_EQ(why("wgmma", 64, 128), std::nullopt);
  // Tiles of 256 weight rows have whole groups. They gather rows of x.
  MatmulProblem wide;
  wide.tileRows = wide.groupColumns = 128;
  wide.gated = wide.gather = wide.first = wide.groupScales = true;
  wide.elementBytes = 1;
  wide.n = 64 << 10, wide.k = 1 << 10;
  wide.maxTokens = 9;
  const Engine &wgmma = *findEngine("wgmma");
  EXPECT_EQ(wgmma.whyGroupsApart(wide), std::nullopt);
  for (auto change :
       {+[](MatmulProblem &p) { p.maxTokens = 8; },
        +[](MatmulProblem &p) { p.maxTokens = 128, p.groupScales = false; },
        +[](MatmulProblem &p) { p.maxTokens = 128, ++p.n; },
        +[](MatmulProblem &p) { p.gather = false; }}) {
    MatmulProblem other = wide;
    change(other);
    EXPECT_NE(wgmma.whyGroupsApart(other), std::nullopt);
  }
  EXPECT_EQ(why("wgmma", 128, 128),
            "engine 'wgmma' quantizes groups in tiles of up to 64 rows");
  EXPECT_EQ(why("wgmma", 16, 32),
            "engine 'wgmma' quantizes groups of 128 columns, not 32");
  MatmulProblem scaled = wide;
  scaled.tileRows = 64, scaled.groupScales = false, scaled.rowScales = true;
  EXPECT_EQ(wgmma.whyGroupsApart(scaled),
            "engine 'wgmma' has no room for per-row scales in addition to "
            "groups in tiles of up to 64 rows");
  scaled.tileRows = 128, scaled.maxTokens = 129;
  EXPECT_EQ(wgmma.whyGroupsApart(scaled), std::nullopt);
  for (int64_t rows : {16, 64, 128})
    for (const char *engine : {"mma_sync", "simt"}) {
      EXPECT_EQ(why(engine, rows, 16), std::nullopt);
      EXPECT_EQ(why(engine, rows, 32), std::nullopt);
      EXPECT_EQ(why(engine, rows, 64, false), std::nullopt);
    }
  EXPECT_EQ(why("mma_sync", 16, 128),
            "128 columns that share a scale are 256 weight rows; engine "
            "'mma_sync' quantizes a divisor of 64");
  EXPECT_NE(why("simt", 128, 128, false), std::nullopt);
  // 48 divide no tile.
  EXPECT_NE(why("mma_sync", 128, 48, false), std::nullopt);
}

TEST(Candidates, EveryGroupThatFitsHasATile) {
  for (const char *arch : {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_120a"}) {
    Hardware hardware;
    ASSERT_TRUE(findHardware(arch, "", hardware));
    for (int64_t rows : {16, 64, 128})
      for (bool gated : {false, true})
        for (bool ofCodes : {false, true})
          for (int64_t columns : {16, 32, 64, 128}) {
            MatmulProblem p = gateUp(1, 1024, rows);
            p.gated = gated, p.resultBytes = 4;
            p.groupColumns = columns;
            if (findEngine("mma_sync")->whyGroupsApart(p))
              continue;
            if (ofCodes)
              p.codeBits = 4;
            else
              p = ofBytes(p);
            std::vector<Schedule> found =
                engines::mma_sync().candidates(p, hardware);
            EXPECT_FALSE(found.empty())
                << arch << " " << rows << " " << columns << " " << gated;
            for (const Schedule &s : found)
              EXPECT_EQ(s.tileN / (gated ? 2 : 1) % columns, 0);
          }
  }
}

TEST(Candidates, ATileIsNotWiderThanAGroupThatIsQuantized) {
  MatmulProblem p = ofBytes(gateUp(1, 128, 16));
  p.groupColumns = kScaledColumns;
  Schedule wide = roles(16, 1);
  wide.tileN = 256;
  setRoles(wide);
  EXPECT_EQ(whyIllegal(p, wide, h100()), std::nullopt);
  EXPECT_EQ(knownGood(p, {&engines::wgmma()}, h100())->tileN, 256);
  // Without gates each weight row is a column.
  p.gated = false;
  EXPECT_EQ(whyIllegal(p, wide, h100()),
            "tile n 256 makes 256 columns; 128 share a scale");
  EXPECT_EQ(knownGood(p, {&engines::wgmma()}, h100())->tileN, 128);
}

TEST(Candidates, RolesShareTheRegistersOfACta) {
  Schedule s = roles(256);
  EXPECT_EQ(s.threads(), 384);
  EXPECT_EQ(s.roles().producerRegisters, 56);
  EXPECT_EQ(s.roles().consumerRegisters, 224);
  EXPECT_EQ(describe(s), "wgmma 256x128x64 stages 4 warps 4+8");
  s.ctasPerSm = 2;
  setRoles(s);
  EXPECT_EQ(s.roles().producerRegisters, 48);
  EXPECT_EQ(s.roles().consumerRegisters, 96);
  s.tileN = 64;
  setRoles(s);
  EXPECT_EQ(s.roles().consumerRegisters, 208);
}

TEST(Candidates, IllegalRolesSayWhy) {
  MatmulProblem p = gateUp(1024, 65536, 256);
  auto why = [&](auto change) {
    Schedule s = roles(256);
    change(s);
    return whyIllegal(p, s, h100());
  };
  EXPECT_EQ(why([](Schedule &) {}), std::nullopt);
  EXPECT_EQ(why([](Schedule &s) {
              s.engine = catalog::find(catalog::kEngines, "mma_sync");
            }),
            "engine 'mma_sync' has no warps with roles");
  EXPECT_EQ(why([](Schedule &s) { s.tileM = 128; }),
            "tile m 128 differs from the variant's tile rows 256");
  EXPECT_EQ(why([](Schedule &s) { s.tileN = 96; }),
            "tile n 96; 64, 128 and 256 are possible");
  EXPECT_EQ(why([](Schedule &s) { s.roles().consumerWarps = 12; }),
            "4 producing and 12 consuming warps; tile n 128 takes 4 and 8");
  EXPECT_EQ(
      why([](Schedule &s) { s.roles().consumerWarps = 4; }),
      "tile m 256 with 128 weight rows per warpgroup; up to 128 are possible");
  EXPECT_EQ(why([](Schedule &s) { s.tileK = 32; }),
            "tile k 32 is not 128 bytes of a row");
  EXPECT_EQ(why([](Schedule &s) { s.stages = 11; }),
            "11 stages; 2 to 10 are possible");
  EXPECT_EQ(why([](Schedule &s) { s.roles().producerRegisters = 60; }),
            "60 registers; multiples of 8 from 24 to 240 are possible");
  EXPECT_EQ(why([](Schedule &s) { s.roles().consumerRegisters = 232; }),
            "66560 registers in all; a CTA has 64512");
  EXPECT_EQ(why([](Schedule &s) { s.roles().consumerRegisters = 160; }),
            "128 accumulators per thread; 160 registers hold 96");
  EXPECT_EQ(why([](Schedule &s) { s.stages = 5; }),
            "256144 bytes of shared memory; sm_90a has 232448");
  p.tileRows = 272;
  EXPECT_EQ(why([](Schedule &s) { s.tileM = 272; }),
            "tile m 272 is no multiple of 16 up to 256");
  p = gateUp(1, 128, 64);
  EXPECT_EQ(why([](Schedule &s) {
              s.tileM = 64, s.stages = 6, s.ctasPerSm = 2;
              setRoles(s);
            }),
            "2 CTAs per SM; 1 fit");
  p = ofBytes(gateUp(1024, 65536, 256));
  EXPECT_EQ(whyIllegal(p, roles(256, 1), h100()),
            "tile m 256 is no multiple of 16 up to 128");
  p.tileRows = 128;
  EXPECT_EQ(whyIllegal(p, roles(128), h100()),
            "tile k 64 is not 128 bytes of a row");
  Schedule s = roles(128, 1);
  EXPECT_EQ(whyIllegal(p, s, h100()), std::nullopt);
  s.roles().consumerRegisters = 216;
  EXPECT_EQ(whyIllegal(p, s, h100()),
            "160 sums, totals and scales per thread; 216 registers hold 152");
  p.groupScales = false;
  EXPECT_EQ(whyIllegal(p, s, h100()), std::nullopt);
  // Sums alone, where they may stay as they are.
  p.addsFast = true;
  p.tileRows = 192;
  EXPECT_EQ(whyIllegal(p, roles(192, 1), h100()), std::nullopt);
  p.tileRows = 256;
  EXPECT_EQ(whyIllegal(p, roles(256, 1), h100()),
            "tile m 256 is no multiple of 16 up to 192");
}

TEST(Schedules, EachNumberMustBePositive) {
  const MatmulProblem p = gateUp(1, 64, 16);
  const Schedule good = roles(16);
  EXPECT_EQ(whyIllegal(p, good, h100()), std::nullopt);
  for (int64_t Schedule::*member :
       {&Schedule::tileM, &Schedule::tileN, &Schedule::tileK, &Schedule::stages,
        &Schedule::groupM, &Schedule::ctasPerSm})
    for (const int64_t number : {0, -16}) {
      Schedule s = good;
      s.*member = number;
      EXPECT_EQ(whyIllegal(p, s, h100()),
                "tile, stages, group and CTAs must be positive");
    }
  Schedule grouped = good;
  grouped.groupM = 1024;
  EXPECT_EQ(whyIllegal(p, grouped, h100()), std::nullopt);
  grouped.groupM = 1025;
  EXPECT_EQ(whyIllegal(p, grouped, h100()),
            "a group of 1025 m tiles; up to 1024 are possible");
}
