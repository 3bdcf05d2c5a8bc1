//===- ScheduleTest.cpp - candidates, shared memory and cost --------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All candidates are legal, illegal ones say why, and the model's choice for
// well-known layers stays within what is known to be good.
//
//===----------------------------------------------------------------------===//

#include "compiler/schedule/Candidates.h"
#include "compiler/schedule/CostModel.h"
#include "compiler/schedule/Gemv.h"
#include "compiler/schedule/SharedMemory.h"
#include "compiler/schedule/Slices.h"
#include "compiler/schedule/TileRules.h"

#include <gtest/gtest.h>

using namespace moec;
using namespace moec::compiler;

static Hardware h100() {
  Hardware hw;
  hw.gpu = "h100_sxm";
  hw.arch = "sm_90a";
  hw.sharedPerBlock = 232448;
  hw.sharedPerSm = 233472;
  hw.threadsPerSm = 2048;
  hw.ctasPerSm = 32;
  hw.sms = 132;
  hw.bandwidth = 3.35e12;
  hw.l2Bytes = 50 << 20;
  hw.tensorFlops = 989e12;
  hw.scalarFlops = 67e12;
  return hw;
}

/// Gate and up of Qwen3-30B-A3B.
static MatmulProblem gateUp(int64_t minTokens, int64_t maxTokens,
                            int64_t tileRows) {
  MatmulProblem p;
  p.minTokens = minTokens, p.maxTokens = maxTokens;
  p.n = 1536, p.k = 2048;
  p.experts = p.localExperts = 128, p.topK = 8;
  p.elementType = "bf16";
  p.gated = p.gather = p.first = true;
  p.tileRows = tileRows;
  return p;
}

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
      auto all = candidates(p, engine, h100());
      EXPECT_FALSE(all.empty()) << engine << " " << tileRows;
      for (const Schedule &s : all) {
        EXPECT_EQ(128 % s.tileK, 0) << describe(s);
        int64_t workers = s.hasRoles() ? 32 * s.consumerWarps : s.threads();
        EXPECT_LE(s.tileM * s.tileN / workers, 64) << describe(s);
      }
      Schedule deep = all.front();
      deep.tileK = 256;
      EXPECT_TRUE(whyIllegal(p, deep, h100()));
    }
}

TEST(Candidates, AllAreLegalForEveryTileAndEngine) {
  for (int64_t tileRows : {16, 32, 64, 128}) {
    for (const char *engine : {"wgmma", "mma_sync", "simt"}) {
      MatmulProblem p = gateUp(1, 64, tileRows);
      if (std::string(engine) == "simt")
        p.elementBytes = 4, p.elementType = "f32";
      auto all = candidates(p, engine, h100());
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

TEST(Candidates, FitTheSmallestSharedMemoryOfTheTable) {
  Hardware turing;
  turing.arch = "sm_75";
  turing.sharedPerBlock = turing.sharedPerSm = 64 << 10;
  turing.asyncCopy = false;
  for (int64_t tileRows : {16, 32, 64, 128})
    EXPECT_FALSE(candidates(gateUp(1, 64, tileRows), "simt", turing).empty());
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
  other.warpsM = 2;
  EXPECT_EQ(whyIllegal(p, other, h100()),
            "a warp's tile of 16x64 over 2x4 warps is no multiple of 16x16");
  other = s;
  other.engine = "wgmma";
  EXPECT_EQ(whyIllegal(p, other, h100()),
            "engine 'wgmma' needs warps with roles");
  other = s;
  other.engine = "dp4a";
  EXPECT_EQ(whyIllegal(p, other, h100()),
            "engine 'dp4a' has no grouped matmul");
  other = s;
  other.stages = 9;
  EXPECT_EQ(whyIllegal(p, other, h100()), "9 stages; 2 to 8 are possible");
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
            "256 accumulators a thread; at most 128 fit");
  other = s;
  other.tileK = 128, other.warpsN = 2;
  EXPECT_EQ(whyIllegal(p, other, h100()),
            "64 threads cannot share rows of 256 bytes evenly");
}

/// What the table says for wgmma tiles of so many rows.
static Schedule roles(int64_t tileRows, int64_t elementBytes = 2) {
  Schedule s;
  s.engine = "wgmma";
  s.tileM = tileRows, s.tileN = 128, s.tileK = 128 / elementBytes;
  s.stages = 4;
  s.setRoles();
  return s;
}

/// The same with operands of 8 bits, scaled by groups of 128.
static MatmulProblem ofBytes(MatmulProblem p) {
  p.elementType = "f8E4M3FN";
  p.elementBytes = 1;
  p.resultBytes = 4;
  p.groupScales = true;
  return p;
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
  // A scale of each token of each stage.
  MatmulProblem bytes = ofBytes(gateUp(1024, 65536, 128));
  int64_t all = 4 * 256 * 128 + 2 * 32 * (32 * 4 + 16) + 2 * 16 + 12 * 8;
  EXPECT_EQ(sharedBytes(bytes, roles(128, 1)), all + 4 * 128 * 4);
  bytes.groupScales = false;
  EXPECT_EQ(sharedBytes(bytes, roles(128, 1)), all);
  // A group of 128 columns of each token, and the largest ring beside it.
  bytes.groupScales = bytes.quantizesGroups = true;
  Schedule five = roles(128, 1);
  five.stages = 5;
  EXPECT_EQ(sharedBytes(bytes, five),
            5 * (256 * 128 + 128 * 4) + 128 * 128 * 4 + 2 * 16 + 14 * 8);
  EXPECT_EQ(whyIllegal(bytes, five, h100()), std::nullopt);
}

TEST(Candidates, GroupsAreQuantizedByEnginesWithRoles) {
  MatmulProblem p = ofBytes(gateUp(1, 128, 16));
  EXPECT_EQ(takenWeightRows(p, 64), 64);
  p.quantizesGroups = true;
  EXPECT_EQ(takenWeightRows(p, 64), 256);
  p.gated = false;
  EXPECT_EQ(takenWeightRows(p, 64), 128);
  Schedule s;
  s.tileM = 16;
  EXPECT_EQ(whyIllegal(p, s, h100()),
            "engine 'mma_sync' does not quantize groups of its result");
}

TEST(Candidates, ATileIsNotWiderThanAGroupThatIsQuantized) {
  MatmulProblem p = ofBytes(gateUp(1, 128, 16));
  p.quantizesGroups = true;
  Schedule wide = roles(16, 1);
  wide.tileN = 256;
  wide.setRoles();
  EXPECT_EQ(whyIllegal(p, wide, h100()), std::nullopt);
  EXPECT_EQ(knownGood(p, {"wgmma"}, h100())->tileN, 256);
  // Without gates each weight row is a column.
  p.gated = false;
  EXPECT_EQ(whyIllegal(p, wide, h100()),
            "tile n 256 makes 256 columns; 128 share a scale");
  EXPECT_EQ(knownGood(p, {"wgmma"}, h100())->tileN, 128);
}

TEST(Candidates, RolesShareTheRegistersOfACta) {
  Schedule s = roles(256);
  EXPECT_EQ(s.threads(), 384);
  EXPECT_EQ(s.producerRegisters, 56);
  EXPECT_EQ(s.consumerRegisters, 224);
  EXPECT_EQ(describe(s), "wgmma 256x128x64 stages 4 warps 4+8");
  s.ctasPerSm = 2;
  s.setRoles();
  EXPECT_EQ(s.producerRegisters, 48);
  EXPECT_EQ(s.consumerRegisters, 96);
  s.tileN = 64;
  s.setRoles();
  EXPECT_EQ(s.consumerRegisters, 208);
}

TEST(Candidates, IllegalRolesSayWhy) {
  MatmulProblem p = gateUp(1024, 65536, 256);
  auto why = [&](auto change) {
    Schedule s = roles(256);
    change(s);
    return whyIllegal(p, s, h100());
  };
  EXPECT_EQ(why([](Schedule &) {}), std::nullopt);
  EXPECT_EQ(why([](Schedule &s) { s.engine = "mma_sync"; }),
            "engine 'mma_sync' has no warps with roles");
  EXPECT_EQ(why([](Schedule &s) { s.tileM = 128; }),
            "tile m 128 differs from the variant's tile rows 256");
  EXPECT_EQ(why([](Schedule &s) { s.tileN = 96; }),
            "tile n 96; 64, 128 and 256 are possible");
  EXPECT_EQ(why([](Schedule &s) { s.consumerWarps = 12; }),
            "4 producing and 12 consuming warps; tile n 128 takes 4 and 8");
  EXPECT_EQ(
      why([](Schedule &s) { s.consumerWarps = 4; }),
      "tile m 256 of 128 weight rows a warpgroup; up to 128 are possible");
  EXPECT_EQ(why([](Schedule &s) { s.tileK = 32; }),
            "tile k 32 is not 128 bytes of a row");
  EXPECT_EQ(why([](Schedule &s) { s.stages = 11; }),
            "11 stages; 2 to 10 are possible");
  EXPECT_EQ(why([](Schedule &s) { s.producerRegisters = 60; }),
            "60 registers; multiples of 8 from 24 to 240 are possible");
  EXPECT_EQ(why([](Schedule &s) { s.consumerRegisters = 232; }),
            "66560 registers in all; a CTA has 64512");
  EXPECT_EQ(why([](Schedule &s) { s.consumerRegisters = 160; }),
            "128 accumulators a thread; 160 registers hold 96");
  EXPECT_EQ(why([](Schedule &s) { s.stages = 5; }),
            "256144 bytes of shared memory; sm_90a has 232448");
  p.tileRows = 272;
  EXPECT_EQ(why([](Schedule &s) { s.tileM = 272; }),
            "tile m 272 is no multiple of 16 up to 256");
  p = gateUp(1, 128, 64);
  EXPECT_EQ(why([](Schedule &s) {
              s.tileM = 64, s.stages = 6, s.ctasPerSm = 2;
              s.setRoles();
            }),
            "2 CTAs a multiprocessor; 1 fit");
  p = ofBytes(gateUp(1024, 65536, 256));
  EXPECT_EQ(whyIllegal(p, roles(256, 1), h100()),
            "tile m 256 is no multiple of 16 up to 128");
  p.tileRows = 128;
  EXPECT_EQ(whyIllegal(p, roles(128), h100()),
            "tile k 64 is not 128 bytes of a row");
  Schedule s = roles(128, 1);
  EXPECT_EQ(whyIllegal(p, s, h100()), std::nullopt);
  s.consumerRegisters = 216;
  EXPECT_EQ(whyIllegal(p, s, h100()),
            "160 sums, totals and scales a thread; 216 registers hold 152");
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

TEST(KnownGood, TheTableSaysWhichEngineServesATile) {
  std::vector<std::string> both = {"wgmma", "mma_sync"};
  auto engineFor = [&](int64_t tileRows) {
    return knownGood(gateUp(1, 512, tileRows), both, h100())->engine;
  };
  EXPECT_EQ(engineFor(16), "wgmma");
  EXPECT_EQ(engineFor(64), "wgmma");
  EXPECT_EQ(engineFor(256), "wgmma");
  // Few rows of a large expert are cut finer.
  MatmulProblem large = gateUp(1, 512, 16);
  large.n = 28672, large.k = 4096;
  EXPECT_EQ(knownGood(large, both, h100())->engine, "mma_sync");
  large.n = 4096, large.k = 14336,
  large.gather = large.gated = large.first = false;
  EXPECT_EQ(knownGood(large, both, h100())->engine, "mma_sync");
  // Tiles share a weight that is larger than the L2.
  MatmulProblem p = gateUp(129, 65536, 256);
  EXPECT_EQ(knownGood(p, both, h100())->groupM, 1);
  p.n = 28672, p.k = 4096;
  EXPECT_EQ(knownGood(p, both, h100())->groupM, 4);
  // What has 8 bits, wgmma multiplies as such.
  for (const TileRule &rule : kTileRules)
    if (rule.serves("wgmma", 1)) {
      MatmulProblem bytes = ofBytes(gateUp(1, 512, rule.rows));
      EXPECT_EQ(knownGood(bytes, both, h100())->engine, "wgmma");
    }
  // Where its sums need no totals tiles are larger; the expert's weight of a
  // large one is shared.
  MatmulProblem fast = ofBytes(gateUp(1024, 65536, 192));
  EXPECT_FALSE(knownGood(fast, both, h100()));
  fast.groupScales = false, fast.addsFast = true;
  EXPECT_EQ(knownGood(fast, both, h100())->groupM, 1);
  fast.n = 28672, fast.k = 4096;
  EXPECT_EQ(knownGood(fast, both, h100())->groupM, 4);
  // Forced, each serves all tiles of its rules.
  for (const TileRule &rule : kTileRules)
    if (rule.serves("wgmma", 2) || rule.serves("mma_sync", 2))
      for (int64_t resultBytes : {2, 4})
        for (bool gated : {false, true}) {
          MatmulProblem p = gateUp(1, 512, rule.rows);
          p.gated = p.gather = p.first = gated;
          p.resultBytes = resultBytes;
          auto s = knownGood(p, {std::string(rule.engine)}, h100());
          ASSERT_TRUE(s) << rule.engine << rule.rows;
          EXPECT_EQ(s->engine, rule.engine);
          EXPECT_EQ(whyIllegal(p, *s, h100()), std::nullopt) << describe(*s);
        }
}

TEST(KnownGood, ShortRowsOfTheSecondMatmulAreMultipliedBesideAnEpilogue) {
  // Two CTAs, each with a warpgroup of 128 weight rows.
  auto isWhole = [&](const MatmulProblem &p) {
    std::optional<Schedule> s = knownGood(p, {"wgmma"}, h100());
    EXPECT_TRUE(s);
    EXPECT_EQ(whyIllegal(p, *s, h100()), std::nullopt) << describe(*s);
    return s->ctasPerSm == 2 && s->rowsOfWarpgroup() == 128;
  };
  for (bool groups : {false, true}) {
    MatmulProblem down = ofBytes(gateUp(1024, 65536, 128));
    down.gated = down.gather = down.first = false;
    down.groupScales = groups;
    down.resultBytes = 2;
    down.n = 2048, down.k = 768;
    EXPECT_TRUE(isWhole(down));
    // Those of 64 rows where k is short.
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
  MatmulProblem p = ofBytes(gateUp(1024, 65536, 128));
  Schedule s = *knownGood(p, {"wgmma"}, h100());
  EXPECT_FALSE(s.swap);
  EXPECT_EQ(describe(s), "wgmma 128x128x128 stages 6 warps 4+8 of tokens");
  // A ring of 6 stages, a staging tile of 8 tokens for each of 8 warps, two
  // slots, a scale of each token of each stage, and 16 barriers.
  EXPECT_EQ(sharedBytes(p, s),
            6 * (256 * 128 + 128 * 4) + 8 * 8 * (64 + 8) * 4 + 2 * 16 + 16 * 8);
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
              s.setRoles();
            }),
            std::nullopt);
  EXPECT_EQ(why([](Problem &p, Schedule &s) { p.tileRows = s.tileM = 256; }),
            "tile m 256 is no multiple of 16 up to 192");
  EXPECT_EQ(why([](Problem &, Schedule &s) { s.consumerWarps = 12; }),
            "4 producing and 12 consuming warps; tile m 128 takes 4 and 8");
  EXPECT_EQ(why([](Problem &p, Schedule &s) {
              p.tileRows = s.tileM = 96;
              s.consumerWarps = 6;
            }),
            "tokens are rows of an instruction by 64, not 96");
  EXPECT_EQ(why([](Problem &, Schedule &s) { s.tileN = 64; }),
            "tile n 64; tokens as rows of an instruction take 128");
  for (bool Problem::*field :
       {&Problem::groupScales, &Problem::quantizesGroups})
    EXPECT_EQ(why([&](Problem &p, Schedule &) { p.*field = !(p.*field); }),
              "operands are swapped but for scales of groups along k and a "
              "result that is not quantized");
  // Few tokens an expert, and scales of whole rows, are swapped.
  p.tileRows = 64;
  EXPECT_TRUE(knownGood(p, {"wgmma"}, h100())->swap);
  p.tileRows = 128, p.groupScales = false;
  EXPECT_TRUE(knownGood(p, {"wgmma"}, h100())->swap);
}

TEST(KnownGood, ServesEveryTileAndIsLegal) {
  for (int64_t tileRows : {16, 32, 64, 128})
    for (bool first : {true, false}) {
      MatmulProblem p = gateUp(1, 512, tileRows);
      p.gather = p.gated = p.first = first;
      auto s = knownGood(p, {"mma_sync"}, h100());
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
  auto s = knownGood(p, {"mma_sync"}, ada);
  EXPECT_TRUE(!s || !whyIllegal(p, *s, ada));
  EXPECT_FALSE(knownGood(p, {"simt"}, ada));
  for (int64_t bytes : {1, 4}) {
    p.elementBytes = bytes;
    EXPECT_FALSE(knownGood(p, {"mma_sync"}, ada));
  }
}

TEST(CostModel, TouchesAllExpertsWithManyTokensAndTopKWithOne) {
  MatmulProblem p = gateUp(1, 64, 16);
  EXPECT_NEAR(touchedExperts(p, 1), 8, 1e-9);
  EXPECT_NEAR(touchedExperts(p, 8192), 128, 1e-3);
  EXPECT_NEAR(expectedTiles(p, 1), 8, 1e-9);
}

TEST(CostModel, MemoryBoundsDecodeAndComputeBoundsPrefill) {
  Schedule small;
  small.tileM = 16, small.tileN = 64, small.tileK = 128, small.stages = 4;
  small.ctasPerSm = 3;
  Cost decode = estimate(gateUp(1, 64, 16), small, h100(), 32);
  EXPECT_GT(decode.memorySeconds, decode.computeSeconds);
  // The weights of 111 touched experts at most 40 % over the bandwidth.
  EXPECT_GT(decode.seconds, 208e-6);
  EXPECT_LT(decode.seconds, 208e-6 * 1.4);
  Schedule large;
  large.tileM = large.tileN = 128, large.tileK = 32, large.stages = 4;
  large.warpsM = 2, large.warpsN = 4, large.ctasPerSm = 2;
  Cost prefill = estimate(gateUp(4096, 65536, 128), large, h100(), 8192);
  EXPECT_GT(prefill.computeSeconds, prefill.memorySeconds);
}

TEST(CostModel, DecodeKeepsEnoughBytesInFlight) {
  MatmulProblem p = gateUp(1, 256, 16);
  Schedule s = best(p, candidates(p, "mma_sync", h100()), h100());
  int64_t inFlight =
      s.ctasPerSm * (s.stages - 1) * s.tileN * s.tileK * p.elementBytes;
  EXPECT_GE(s.ctasPerSm, 2) << describe(s);
  EXPECT_GE(inFlight, 64 << 10) << describe(s);
}

TEST(CostModel, PrefillTakesLargeWarpTiles) {
  MatmulProblem p = gateUp(2049, 65536, 128);
  Schedule s = best(p, candidates(p, "mma_sync", h100()), h100());
  EXPECT_GE(s.tileN, 128) << describe(s);
  EXPECT_GE((s.tileM / s.warpsM) * (s.tileN / s.warpsN), 2048) << describe(s);
}

TEST(CostModel, RanksRolesByTheBytesInFlight) {
  for (int64_t tileRows : {16, 64, 256}) {
    MatmulProblem p = gateUp(1, 8192, tileRows);
    auto all = candidates(p, "wgmma", h100());
    ASSERT_FALSE(all.empty());
    Schedule s = best(p, all, h100());
    EXPECT_EQ(s.stages, all.front().stages) << describe(s);
    EXPECT_EQ(s.source, "modelled");
  }
}

TEST(Gemv, TakesTheBestScheduleThatFits) {
  // Gate and up of Qwen3-30B-A3B: four rows of x, and 6 stages of 16 warps.
  GemvProblem up{4, 2048, 2, 2, false, false};
  auto found = gemvSchedule(up, h100());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->warps, 16);
  EXPECT_EQ(found->stages, 6);
  EXPECT_EQ(sharedBytes(up, *found), 4 * 2048 * 2 + 16 * 6 * 2 * 512);
  // One weight row a result: twice the stages.
  GemvProblem down{32, 768, 1, 2, false, false};
  found = gemvSchedule(down, h100());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->stages, 12);
  // Scales of x, 16 a row, and of the weights with each step.
  GemvProblem scaled{4, 2048, 2, 1, true, true};
  EXPECT_EQ(sharedBytes(scaled, {16, 6}),
            4 * 2048 + 4 * 16 * 4 + 16 * 6 * 2 * 640);
}

TEST(Gemv, GivesUpStagesAndThenRows) {
  Hardware small = h100();
  small.sharedPerBlock = 101376;
  auto found = gemvSchedule({4, 2048, 2, 2, false, false}, small);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->stages, 4);
  EXPECT_FALSE(gemvSchedule({4, 7168, 2, 2, false, false}, small));
  EXPECT_TRUE(gemvSchedule({2, 7168, 2, 2, false, false}, small));
  EXPECT_FALSE(gemvSchedule({8, 14336, 1, 2, false, false}, small));
  EXPECT_FALSE(gemvSchedule({8, 14336, 1, 2, false, false}, h100()));
  EXPECT_TRUE(gemvSchedule({2, 14336, 1, 2, false, false}, h100()));
}

/// The second matmul of DeepSeek-V3 over 8 GPUs.
static MatmulProblem deepseekDown() {
  MatmulProblem p;
  p.maxTokens = 65536;
  p.n = 7168, p.k = 256;
  p.experts = p.localExperts = 256;
  p.topK = 8;
  p.elementBytes = 1;
  p.groupScales = true;
  return p;
}

TEST(Slices, ServeWherePartialSumsCostMoreThanSlices) {
  auto ranges = slicesRanges(deepseekDown(), h100());
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges[0].first, 3272);
  EXPECT_EQ(ranges[0].last, 4096);
  EXPECT_EQ(ranges[1].first, 4097);
  EXPECT_EQ(ranges[1].last, 8192);
  // Rows of twice the bytes; rows that do not fit where they would pay; too few
  // slices; half a slice; few tokens.
  MatmulProblem p = deepseekDown();
  p.elementBytes = 2;
  EXPECT_TRUE(slicesRanges(p, h100()).empty());
  p = deepseekDown();
  p.k = 2048;
  EXPECT_TRUE(slicesRanges(p, h100()).empty());
  p = deepseekDown();
  p.n = 1024;
  EXPECT_TRUE(slicesRanges(p, h100()).empty());
  p.n = 7168 + 64;
  EXPECT_TRUE(slicesRanges(p, h100()).empty());
  p = deepseekDown();
  p.maxTokens = 3271;
  EXPECT_TRUE(slicesRanges(p, h100()).empty());
  p.maxTokens = 3300;
  ranges = slicesRanges(p, h100());
  ASSERT_EQ(ranges.size(), 1u);
  EXPECT_EQ(ranges[0].last, 3300);
}

TEST(Slices, KeepAllRowsInSharedMemory) {
  MatmulProblem p = deepseekDown();
  p.maxTokens = 8192;
  auto found = slicesSchedule(p, h100());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->buffers, 2);
  // Each expert's rows begin at a multiple of 8.
  EXPECT_GE(found->blockRows * 132, 8192 * 8 + 7 * 256);
  EXPECT_EQ(found->blockRows, 512);
  EXPECT_EQ(found->blockTokens, 63);
  EXPECT_LE(slicesSharedBytes(p, *found), h100().sharedPerBlock);
  EXPECT_EQ(found->threads(), 640);
  // Half as many multiprocessors would need twice the rows.
  Hardware half = h100();
  half.sms = 66;
  EXPECT_FALSE(slicesSchedule(p, half));
}
