//===- mma_sync.cpp - multiplies by mma.sync ------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Serves sm_80 and later, and all weights that are converted. Those in
// fragments are converted in registers, others on their way through shared
// memory.
//
//===----------------------------------------------------------------------===//

#include "compiler/engine/Multistage.h"
#include "compiler/engine/Slabs.h"

#include <algorithm>

using namespace moec;
using namespace moec::compiler;

/// It reaches this part of the row's dense rate on the GPUs whose rate needs
/// wgmma or tcgen05; the ranking does not depend on it elsewhere.
static constexpr double kMmaSyncEfficiency = 0.65;
/// Shared memory: 128 bytes a clock against 1024 multiply-adds a clock.
static constexpr double kBytesPerMultiplyAdd = 0.125;

namespace {
/// One row: serves operands of 16 bits and m tiles of so many rows, for at most
/// `rowsPerExpert` rows an expert in the mean.
struct Row {
  int64_t tileM = 0;
  double rowsPerExpert = kAnyRows;
  int64_t codeBits = 0;           ///< serves weights of so many bits; 0: any
  int64_t leastN = 0, leastK = 0; ///< serves weights of this size and larger
  bool wholeN = false;            ///< serves weights of whole n tiles
  int64_t tileN = 0, tileK = 0, stages = 0;
  int64_t warpsM = 1, warpsN = 4, ctasPerSm = 2, groupM = 1;
  Measured measured = {"bench/notes/mma_sync-h100.md", "2026-11-21"};
};

constexpr Measured kFragments = {"bench/notes/mma_sync-fragments.md",
                                 "2026-11-25"};

/// Not measured: chosen by registers and shared memory.
constexpr Measured kAssumed = {"bench/notes/mma_sync-fragments.md",
                               "2026-11-23"};

/// Best first. Where the weight of an expert outgrows the L2, tiles share it
/// while it passes.
// clang-format off
constexpr Row kRows[] = {
    {.tileM = 16, .tileN = 64, .tileK = 128, .stages = 4, .ctasPerSm = 3},
    {.tileM = 32, .tileN = 64, .tileK = 128, .stages = 4},
    {.tileM = 64, .rowsPerExpert = 64, .tileN = 64, .tileK = 128, .stages = 3},
    {.tileM = 64, .tileN = 128, .tileK = 64, .stages = 3, .groupM = 4},
    {.tileM = 128, .tileN = 256, .tileK = 64, .stages = 3, .warpsM = 2, .ctasPerSm = 1, .groupM = 4},
    {.tileM = 128, .tileN = 256, .tileK = 32, .stages = 4, .warpsM = 2, .ctasPerSm = 1, .groupM = 4},
};

/// Likewise of weights in fragments. A warp has 16 or 32 weight rows and all
/// tokens of its tile, so that each code is converted once. Short loops and few
/// tiles gain nothing by stages of 128 columns.
constexpr Row kFragmentRows[] = {
    {.tileM = 16, .codeBits = 4, .leastN = 1024, .leastK = 512, .tileN = 64, .tileK = 128, .stages = 4, .ctasPerSm = 6, .measured = kFragments},
    {.tileM = 16, .codeBits = 4, .wholeN = true, .tileN = 128, .tileK = 64, .stages = 6, .ctasPerSm = 4, .measured = kFragments},
    {.tileM = 16, .tileN = 64, .tileK = 64, .stages = 6, .ctasPerSm = 6, .measured = kFragments},
    {.tileM = 32, .codeBits = 4, .leastN = 1024, .leastK = 512, .tileN = 128, .tileK = 128, .stages = 3, .ctasPerSm = 4, .measured = kFragments},
    {.tileM = 32, .tileN = 128, .tileK = 64, .stages = 5, .ctasPerSm = 4, .measured = kFragments},
    {.tileM = 64, .tileN = 128, .tileK = 64, .stages = 4, .ctasPerSm = 3, .groupM = 4, .measured = kAssumed},
    {.tileM = 128, .tileN = 256, .tileK = 64, .stages = 4, .warpsN = 8, .ctasPerSm = 1, .groupM = 4, .measured = kAssumed},
    {.tileM = 128, .tileN = 256, .tileK = 64, .stages = 3, .warpsN = 8, .ctasPerSm = 1, .groupM = 4, .measured = kAssumed},
};
// clang-format on

class MmaSync final : public Multistage {
public:
  MmaSync() : Multistage("mma_sync") {}

  std::vector<GoodSchedule>
  goodSchedules(const MatmulProblem &problem,
                const Hardware &hardware) const override {
    std::vector<GoodSchedule> good;
    double rows = double(problem.maxTokens) * double(problem.pairs) /
                  double(problem.experts);
    for (const Row &r : problem.inFragments
                            ? std::span<const Row>(kFragmentRows)
                            : std::span<const Row>(kRows)) {
      if (problem.elementBytes != 2 || r.tileM != problem.tileRows ||
          rows > r.rowsPerExpert ||
          (r.codeBits > 0 && r.codeBits != problem.codeBits) ||
          problem.n < r.leastN || problem.k < r.leastK ||
          (r.wholeN && problem.n % r.tileN != 0) ||
          (problem.inFragments && r.tileN > problem.n))
        continue;
      Schedule s;
      s.engine = row.name;
      s.tileM = r.tileM, s.tileN = r.tileN, s.tileK = r.tileK;
      s.stages = r.stages;
      s.warps = WarpGrid{r.warpsM, r.warpsN};
      s.groupM = r.groupM;
      s.ctasPerSm =
          std::clamp<int64_t>(occupancy(problem, s, hardware), 1, r.ctasPerSm);
      good.push_back({s});
    }
    return good;
  }

private:
  // mma.m16n8k16 (k32 of 8 bits), weights loaded 16 rows at a time by
  // ldmatrix.x4.
  Granularity granularity(const MatmulProblem &problem) const override {
    return {16, 16, 32 / problem.elementBytes};
  }

  Choices choices(const MatmulProblem &problem) const override {
    Choices c;
    if (problem.tileRows <= 16)
      // Memory bound: several CTAs an SM, long rows, a deep ring.
      c = {{64, 128}, {64, 128}, 4, 6, {{1, 4}}};
    else if (problem.tileRows <= 32)
      c = {{64, 128}, {64, 128}, 3, 6, {{1, 4}, {2, 2}}};
    else if (problem.tileRows <= 64)
      c = {{64, 128, 256}, {32, 64}, 3, 5, {{1, 4}, {2, 2}, {2, 4}}};
    else
      // Compute bound: warps of 64x32 or 64x64.
      c = {{128, 256}, {32, 64}, 3, 4, {{2, 4}, {4, 2}}};
    // Rows of 64 or 128 bytes.
    if (problem.elementBytes == 1)
      c.tileKs = {64, 128};
    // Warps of 16 or 32 weight rows and all tokens.
    if (problem.inFragments) {
      c.tileKs = {kSlabBlock};
      c.warps = {{1, 4}, {1, 8}};
      c.tileNs = {64, 128, 256};
      return c;
    }
    // Totals, scales and zero points take registers of the sums.
    if ((problem.elementBytes == 1 || problem.codeBits > 0) &&
        problem.tileRows > 64)
      c.tileNs = {64, 128};
    return c;
  }

  int64_t fragments(const MatmulProblem &problem, int64_t warpM,
                    int64_t warpN) const override {
    // One step of 16 in k: four registers for 16 rows of lhs, two for 8 rows of
    // weights. Operands of 16 bits stand beside those of 8 where the arch has
    // no multiply of 8.
    if (problem.inFragments) {
      // Up to 64 tokens of two steps; of each 16 weight rows a step, the codes
      // of 64 columns, and scale and zero point of two rows of each group.
      const int64_t slab =
          4 + problem.codeBits + 4 * groupsOf(problem, kSlabBlock);
      return std::min<int64_t>(warpM, 64) / 2 + warpN / 16 * slab;
    }
    return (warpM / 4 + warpN / 4) * (problem.elementBytes == 1 ? 2 : 1);
  }

  double rate(const MatmulProblem &problem, const Hardware &hardware,
              double warpM, double warpN) const override {
    // Clocks of one k element of a warp's tile on the multipliers and on shared
    // memory; the two overlap in part.
    double multiply = warpM * warpN / (1024.0 * kMmaSyncEfficiency);
    double load = (warpM + warpN) * double(problem.elementBytes) *
                  kBytesPerMultiplyAdd / 16.0;
    if (problem.inFragments)
      load = (warpM * double(problem.elementBytes) +
              warpN * double(problem.codeBits) / 8.0) *
             kBytesPerMultiplyAdd / 16.0;
    return hardware.tensorFlops * kMmaSyncEfficiency / double(hardware.sms) *
           (multiply / (multiply + 0.35 * load));
  }
};
} // namespace

const Engine &engines::mma_sync() {
  static const MmaSync engine;
  return engine;
}
