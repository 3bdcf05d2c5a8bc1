//===- CostModelTest.cpp - choice by a model ------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The model's choice for well-known layers stays within what is known to be
// good; so do the rules of the engines that have schedules of their own.
//
//===----------------------------------------------------------------------===//

#include "compiler/matmul/CostModel.h"
#include "compiler/matmul/Engine.h"
#include "compiler/matmul/Gemv.h"
#include "compiler/matmul/Slices.h"
#include "test/compiler/unit/ScheduleTesting.h"

#include <gtest/gtest.h>

using namespace moec;
using namespace moec::compiler;
using namespace moec::test;

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
  large.grid().m = 2, large.grid().n = 4, large.ctasPerSm = 2;
  Cost prefill = estimate(gateUp(4096, 65536, 128), large, h100(), 8192);
  EXPECT_GT(prefill.computeSeconds, prefill.memorySeconds);
}

/// As many CTAs fit an SM as its scarcest resource allows, at the limit and one
/// byte, thread or register below it.
TEST(CostModel, Occupancy) {
  const MatmulProblem p = gateUp(1, 64, 16);
  Schedule s;
  s.tileM = 16, s.tileN = 64, s.tileK = 128, s.stages = 4;
  const int64_t shared = sharedBytes(p, s);
  ASSERT_GT(shared, 0);
  Hardware roomy = h100();
  roomy.sharedPerBlock = shared;
  roomy.sharedPerSm = 100 * (shared + kReservedPerCta);
  roomy.threadsPerSm = 100 * s.threads();
  roomy.registersPerSm = 100 * 255 * s.threads();
  roomy.ctasPerSm = 64;
  EXPECT_EQ(occupancy(p, s, roomy), 64);
  for (const int64_t ctas : {1, 2, 3}) {
    Hardware hardware = roomy;
    hardware.sharedPerSm = ctas * (shared + kReservedPerCta);
    EXPECT_EQ(occupancy(p, s, hardware), ctas);
    hardware.sharedPerSm -= 1;
    EXPECT_EQ(occupancy(p, s, hardware), ctas - 1);
    hardware = roomy;
    hardware.threadsPerSm = ctas * s.threads();
    EXPECT_EQ(occupancy(p, s, hardware), ctas);
    hardware.threadsPerSm -= 1;
    EXPECT_EQ(occupancy(p, s, hardware), ctas - 1);
    hardware = roomy;
    hardware.ctasPerSm = ctas;
    EXPECT_EQ(occupancy(p, s, hardware), ctas);
  }
  // The least registers for a CTA, and one fewer.
  int64_t registers = 0;
  Hardware hardware = roomy;
  do
    hardware.registersPerSm = ++registers;
  while (occupancy(p, s, hardware) == 0);
  EXPECT_EQ(registers % s.threads(), 0);
  hardware.registersPerSm = 3 * registers;
  EXPECT_EQ(occupancy(p, s, hardware), 3);
  hardware.registersPerSm -= 1;
  EXPECT_EQ(occupancy(p, s, hardware), 2);
  hardware = roomy;
  hardware.sharedPerBlock = shared - 1;
  EXPECT_EQ(occupancy(p, s, hardware), 0);
}

/// The longest part names the bound; the fill does if it is longer than each.
TEST(CostModel, TheLongestPartIsTheBound) {
  const auto boundOf = [](double memory, double l2, double compute,
                          double convert, double fill) {
    Cost cost;
    cost.memorySeconds = memory, cost.l2Seconds = l2;
    cost.computeSeconds = compute, cost.convertSeconds = convert;
    cost.fillSeconds = fill;
    return cost.bound();
  };
  EXPECT_EQ(boundOf(4, 3, 2, 1, 4), "memory");
  EXPECT_EQ(boundOf(3, 4, 2, 1, 4), "l2");
  EXPECT_EQ(boundOf(1, 2, 4, 3, 4), "compute");
  EXPECT_EQ(boundOf(1, 2, 3, 4, 4), "convert");
  EXPECT_EQ(boundOf(4, 3, 2, 1, 4.5), "latency");
}

/// The first of several schedules that cost the same is taken.
TEST(CostModel, TheFirstOfEqualSchedulesWins) {
  const MatmulProblem p = gateUp(1, 512, 64);
  Schedule first = roles(64), second = first;
  first.source = "first", second.source = "second";
  EXPECT_EQ(best(p, {first, second}, h100()).source, "first");
  EXPECT_EQ(best(p, {second, first}, h100()).source, "second");
}

TEST(CostModel, DecodeKeepsEnoughBytesInFlight) {
  MatmulProblem p = gateUp(1, 256, 16);
  Schedule s = best(p, engines::mma_sync().candidates(p, h100()), h100());
  int64_t inFlight =
      s.ctasPerSm * (s.stages - 1) * s.tileN * s.tileK * p.elementBytes;
  EXPECT_GE(s.ctasPerSm, 2) << describe(s);
  EXPECT_GE(inFlight, 64 << 10) << describe(s);
}

TEST(CostModel, PrefillTakesLargeWarpTiles) {
  MatmulProblem p = gateUp(2049, 65536, 128);
  Schedule s = best(p, engines::mma_sync().candidates(p, h100()), h100());
  EXPECT_GE(s.tileN, 128) << describe(s);
  EXPECT_GE((s.tileM / s.grid().m) * (s.tileN / s.grid().n), 2048)
      << describe(s);
}

TEST(CostModel, RanksRolesByTheBytesInFlight) {
  for (int64_t tileRows : {16, 64, 256}) {
    MatmulProblem p = gateUp(1, 8192, tileRows);
    auto all = engines::wgmma().candidates(p, h100());
    ASSERT_FALSE(all.empty());
    Schedule s = best(p, all, h100());
    EXPECT_EQ(s.stages, all.front().stages) << describe(s);
    EXPECT_EQ(s.source, "modelled");
  }
}

/// A matmul of so many tokens of 8 experts.
static MatmulProblem few(int64_t tokens, int64_t n, int64_t k,
                         int64_t elementBytes, bool first = true) {
  MatmulProblem p;
  p.maxTokens = tokens, p.pairs = 8;
  p.n = n, p.k = k, p.elementBytes = elementBytes;
  p.first = p.gated = first;
  return p;
}

TEST(Gemv, TakesTheBestScheduleThatFits) {
  // Gate and up of Qwen3-30B-A3B: four rows of x, and 6 stages of 16 warps.
  const MatmulProblem up = few(4, 1536, 2048, 2);
  auto found = gemvSchedule(up, h100());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->threads, 512);
  EXPECT_EQ(found->stages, 6);
  EXPECT_EQ(sharedBytes(up, *found), 4 * 2048 * 2 + 16 * 6 * 2 * 512);
  // One weight row a result: twice the stages.
  const MatmulProblem down = few(4, 2048, 768, 2, false);
  found = gemvSchedule(down, h100());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->stages, 12);
  // Scales of x, 16 a row, and of the weights with each step.
  MatmulProblem scaled = few(4, 1536, 2048, 1);
  scaled.scaled = scaled.groupScales = true;
  EXPECT_EQ(sharedBytes(scaled, {{}, 6, 4, 512}),
            4 * 2048 + 4 * 16 * 4 + 16 * 6 * 2 * 640);
  // The ring begins at a multiple of 128 bytes behind a single scale.
  MatmulProblem byToken = few(1, 1536, 2048, 1);
  byToken.scaled = true;
  EXPECT_EQ(sharedBytes(byToken, {{}, 4, 1, 512}),
            2048 + 128 + 16 * 4 * 2 * 640);
}

/// A matmul of 4-bit codes in fragments, for `tokens` tokens of top_k experts.
static MatmulProblem slabProblem(int64_t n, int64_t k, int64_t topK,
                                 int64_t tokens, bool first) {
  MatmulProblem problem = few(tokens, n, k, 2, first);
  problem.pairs = topK;
  problem.codeBits = 4, problem.inFragments = true;
  problem.numberBytes = 2, problem.groupK = 128;
  return problem;
}

TEST(Gemv, UnitsOfFragments) {
  struct Case {
    const char *what;
    MatmulProblem problem;
    int64_t unitRows, warps, stages;
  };
  auto ofGroups = [](MatmulProblem problem, int64_t groupK,
                     int64_t numberBytes) {
    problem.groupK = groupK, problem.numberBytes = numberBytes;
    return problem;
  };
  MatmulProblem bytes = slabProblem(28672, 4096, 2, 4, true);
  bytes.codeBits = 8;
  const Case cases[] = {
      {"2 x 448 units of 64 rows", slabProblem(28672, 4096, 2, 8, true), 64, 4,
       3},
      {"8 x 24 units of 64 rows", slabProblem(1536, 2048, 8, 8, true), 64, 4,
       3},
      {"8 x 8 of them are fewer than multiprocessors",
       slabProblem(512, 7168, 8, 8, true), 16, 8, 4},
      {"16 columns a group",
       ofGroups(slabProblem(28672, 4096, 2, 2, true), 16, 1), 64, 4, 2},
      {"numbers that 32 lanes cannot copy at once",
       ofGroups(slabProblem(28672, 4096, 2, 2, true), 32, 5), 16, 8, 4},
      {"codes of 8 bits", bytes, 16, 8, 4},
      {"second kernel, 128 units", slabProblem(2048, 768, 8, 8, false), 16, 16,
       3},
      {"second kernel, 256 units", slabProblem(4096, 14336, 2, 8, false), 16, 8,
       4},
  };
  for (const Case &c : cases) {
    const std::optional<GemvSchedule> found = gemvSchedule(c.problem, h100());
    ASSERT_TRUE(found) << c.what;
    EXPECT_EQ(found->unitRows, c.unitRows) << c.what;
    EXPECT_EQ(found->threads, 32 * c.warps) << c.what;
    EXPECT_EQ(found->stages, c.stages) << c.what;
  }
  // A slot: codes, scales of a group, and four rows of 64 columns. Behind the
  // slots lie sums of two items.
  EXPECT_EQ(sharedBytes(cases[0].problem, {{}, 3, 8, 128, 4, 64}),
            4 * (3 * (64 * 32 + 64 * 2 + 4 * 144) + 2 * 64 * 4 * 4));
}

/// The second kernel of one token begins beside the first, if both are small.
TEST(Gemv, LeavesHalfOfAMultiprocessorToTheNextKernel) {
  MatmulProblem up = few(1, 1536, 2048, 1);
  up.scaled = up.groupScales = true;
  auto found = gemvSchedule(up, h100());
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->besideNext);
  EXPECT_EQ(found->stages, 4);
  MatmulProblem down = few(1, 2048, 768, 1, false);
  down.scaled = down.groupScales = true;
  found = gemvSchedule(down, h100());
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->besideNext);
  EXPECT_EQ(found->stages, 8);
  const auto isBeside = [&](auto change) {
    MatmulProblem other = up;
    change(other);
    return gemvSchedule(other, h100())->besideNext;
  };
  EXPECT_FALSE(isBeside([](MatmulProblem &p) { p.n = 4097; }));
  EXPECT_FALSE(isBeside([](MatmulProblem &p) { p.maxTokens = 2; }));
  EXPECT_FALSE(isBeside([](MatmulProblem &p) { p.elementBytes = 2; }));
  // More of x than half of the shared memory leaves.
  EXPECT_FALSE(isBeside([](MatmulProblem &p) { p.n = 128, p.k = 40960; }));
}

TEST(Gemv, GivesUpStagesAndThenRows) {
  Hardware small = h100();
  small.sharedPerBlock = 101376;
  auto found = gemvSchedule(few(4, 2048, 2048, 2), small);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->stages, 4);
  EXPECT_FALSE(gemvSchedule(few(4, 2048, 7168, 2), small));
  EXPECT_TRUE(gemvSchedule(few(2, 2048, 7168, 2), small));
  MatmulProblem down = few(1, 2048, 14336, 2, false);
  EXPECT_FALSE(gemvSchedule(down, small));
  EXPECT_FALSE(gemvSchedule(down, h100()));
  down.pairs = 2;
  EXPECT_TRUE(gemvSchedule(down, h100()));
}

/// The second matmul of DeepSeek-V3 over 8 GPUs.
static MatmulProblem deepseekDown() {
  MatmulProblem p;
  p.maxTokens = 65536;
  p.n = 7168, p.k = 256;
  p.experts = p.localExperts = 256;
  p.pairs = 8;
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
