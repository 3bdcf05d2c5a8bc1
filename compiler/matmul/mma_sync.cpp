//===- mma_sync.cpp - engine mma_sync: mma.sync ---------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Supports sm_80 and later, and all kinds of converted weights. Weights in
// fragment order are converted in registers. Weights in row order are copied to
// shared memory as codes, converted there, and stored as operand tiles for the
// mainloop.
//
//===----------------------------------------------------------------------===//

#include "compiler/matmul/Multistage.h"
#include "compiler/matmul/Slabs.h"

#include <algorithm>

using namespace moec;
using namespace moec::compiler;

/// Fraction of the catalog's dense rate that mma.sync reaches on GPUs whose
/// dense rate requires wgmma or tcgen05. On other GPUs the factor does not
/// change the ranking.
static constexpr double kMmaSyncEfficiency = 0.65;
/// Bandwidth of an SM's shared memory (128 bytes per clock) divided by its MMA
/// throughput (1024 multiply-adds per clock).
static constexpr double kBytesPerMultiplyAdd = 0.125;

namespace {
constexpr Measured kTiles = {"bench/notes/mma_sync-h100.md", "2026-11-21"};

constexpr Measured kFragments = {"bench/notes/mma_sync-fragments.md",
                                 "2026-11-25"};

/// The source of rules that were not measured. Registers and shared memory
/// determine them.
constexpr Measured kAssumed = {"bench/notes/mma_sync-fragments.md",
                               "2026-11-23"};

/// Schedule rules, best first. If an expert's weight exceeds the L2 cache,
/// `group` row tiles read it at the same time.
// clang-format off
constexpr ScheduleRule kRules[] = {
    {{.elementBytes = 2, .tileRows = 16}, {.tileN = 64, .tileK = 128, .stages = 4, .ctasPerSm = 3}, kTiles},
    {{.elementBytes = 2, .tileRows = 32}, {.tileN = 64, .tileK = 128, .stages = 4, .ctasPerSm = 2}, kTiles},
    {{.elementBytes = 2, .tileRows = 64, .mostRows = 64}, {.tileN = 64, .tileK = 128, .stages = 3, .ctasPerSm = 2}, kTiles},
    {{.elementBytes = 2, .tileRows = 64}, {.tileN = 128, .tileK = 64, .stages = 3, .group = 4, .ctasPerSm = 2}, kTiles},
    {{.elementBytes = 2, .tileRows = 128}, {.tileN = 256, .tileK = 64, .stages = 3, .group = 4, .ctasPerSm = 1, .warps = {2, 4}}, kTiles},
    {{.elementBytes = 2, .tileRows = 128}, {.tileN = 256, .tileK = 32, .stages = 4, .group = 4, .ctasPerSm = 1, .warps = {2, 4}}, kTiles},
};

/// Schedule rules for weights in fragment order, best first. A warp has 16 or
/// 32 weight rows and all tokens of its tile, so that each code is converted
/// only once. With a short K or few tiles, pipeline stages of 128 columns are
/// not faster.
constexpr ScheduleRule kFragmentRules[] = {
    {{.elementBytes = 2, .tileRows = 16, .codeBits = 4, .leastN = 1024, .leastK = 512}, {.tileN = 64, .tileK = 128, .stages = 4, .ctasPerSm = 6}, kFragments},
    {{.elementBytes = 2, .tileRows = 16, .codeBits = 4, .leastN = 128, .wholeN = 128}, {.tileN = 128, .tileK = 64, .stages = 6, .ctasPerSm = 4}, kFragments},
    {{.elementBytes = 2, .tileRows = 16, .leastN = 64}, {.tileN = 64, .tileK = 64, .stages = 6, .ctasPerSm = 6}, kFragments},
    {{.elementBytes = 2, .tileRows = 32, .codeBits = 4, .leastN = 1024, .leastK = 512}, {.tileN = 128, .tileK = 128, .stages = 3, .ctasPerSm = 4}, kFragments},
    {{.elementBytes = 2, .tileRows = 32, .leastN = 128}, {.tileN = 128, .tileK = 64, .stages = 5, .ctasPerSm = 4}, kFragments},
    {{.elementBytes = 2, .tileRows = 64, .leastN = 128}, {.tileN = 128, .tileK = 64, .stages = 4, .group = 4, .ctasPerSm = 3}, kAssumed},
    {{.elementBytes = 2, .tileRows = 128, .leastN = 256}, {.tileN = 256, .tileK = 64, .stages = 4, .group = 4, .ctasPerSm = 1, .warps = {1, 8}}, kAssumed},
    {{.elementBytes = 2, .tileRows = 128, .leastN = 256}, {.tileN = 256, .tileK = 64, .stages = 3, .group = 4, .ctasPerSm = 1, .warps = {1, 8}}, kAssumed},
};
// clang-format on

class MmaSync final : public Multistage {
public:
  MmaSync() : Multistage("mma_sync") {}

  std::span<const ScheduleRule>
  scheduleRules(const MatmulProblem &problem) const override {
    if (problem.inFragments)
      return kFragmentRules;
    return kRules;
  }

private:
  // The MMA is m16n8k16, or m16n8k32 for 8-bit operands. One ldmatrix.x4 loads
  // 16 weight rows.
  Granularity granularity(const MatmulProblem &problem) const override {
    return {16, 16, 32 / problem.elementBytes};
  }

  Choices choices(const MatmulProblem &problem) const override {
    Choices c;
    if (problem.tileRows <= 16)
      // Memory bound: several CTAs per SM, long rows, many pipeline stages.
      c = {{64, 128}, {64, 128}, 4, 6, {{1, 4}}};
    else if (problem.tileRows <= 32)
      c = {{64, 128}, {64, 128}, 3, 6, {{1, 4}, {2, 2}}};
    else if (problem.tileRows <= 64)
      c = {{64, 128, 256}, {32, 64}, 3, 5, {{1, 4}, {2, 2}, {2, 4}}};
    else
      // Compute bound: warp tiles of 64x32 or 64x64.
      c = {{128, 256}, {32, 64}, 3, 4, {{2, 4}, {4, 2}}};
    // Rows of 64 or 128 bytes per pipeline stage.
    if (problem.elementBytes == 1)
      c.tileKs = {64, 128};
    // Warp tiles have 16 or 32 weight rows and all tokens of the tile.
    if (problem.inFragments) {
      c.tileKs = {kSlabBlock};
      c.warps = {{1, 4}, {1, 8}};
      c.tileNs = {64, 128, 256};
      return c;
    }
    // Totals, scales and zero points leave fewer registers for accumulators.
    if ((problem.elementBytes == 1 || problem.codeBits > 0) &&
        problem.tileRows > 64)
      c.tileNs = {64, 128};
    return c;
  }

  int64_t fragments(const MatmulProblem &problem, int64_t warpM,
                    int64_t warpN) const override {
    // Registers for one k step of 16: four for 16 lhs rows, two for 8 weight
    // rows. On archs without 8-bit MMAs, 8-bit operands are additionally kept
    // as 16-bit operands.
    if (problem.inFragments) {
      // Registers for up to 64 tokens and two k steps. Per 16 weight rows there
      // are the operands of a k step, the codes of 64 columns, and the scale
      // and zero point of two rows per group.
      const int64_t slab =
          4 + problem.codeBits + 4 * groupsOf(problem, kSlabBlock);
      return std::min<int64_t>(warpM, 64) / 2 + warpN / 16 * slab;
    }
    return (warpM / 4 + warpN / 4) * (problem.elementBytes == 1 ? 2 : 1);
  }

  double rate(const MatmulProblem &problem, const Hardware &hardware,
              double warpM, double warpN) const override {
    // `multiply` and `load` are the clocks per k element of a warp's tile, for
    // the tensor core and for shared memory. They overlap partially.
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
