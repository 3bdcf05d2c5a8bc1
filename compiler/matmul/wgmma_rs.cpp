//===- wgmma_rs.cpp - engine wgmma_rs: converted weights ------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Supports sm_90a, for weights of 4, 6 and 8 bits with 16-bit activations, and
// for 4-bit weights with e4m3 activations. Weights are converted in registers,
// which hold the MMA's A operand. Weight rows are therefore the MMA's rows, and
// tokens are its columns.
//
//===----------------------------------------------------------------------===//

#include "compiler/matmul/Slabs.h"
#include "compiler/matmul/WarpSpecialized.h"

#include <fmt/core.h>

#include <algorithm>

using namespace moec;
using namespace moec::compiler;

namespace {
constexpr Measured kMeasured = {"bench/notes/weight-only-h100.md",
                                "2026-11-24"};
/// Three CTAs per SM for 4-bit weights.
constexpr Measured kThreeCtas = {"bench/notes/weight-only-h200.md",
                                 "2026-11-30"};
/// 4-bit weights by e4m3 activations with a scale per group of 128.
constexpr Measured kFolded = {"bench/notes/weight-only-h200.md", "2026-12-01"};
/// Measurements of tile rows for experts with 40 to 110 tokens.
constexpr Measured kMiddle = {"bench/notes/weight-only-h200.md", "2026-11-29"};

// clang-format off
constexpr TileRule kTileRules[] = {
    {{.elementBytes = 2, .mostRows = 12}, {.rows = 16}, kMeasured},
    {{.elementBytes = 2, .mostRows = 20}, {.rows = 32}, kMeasured},
    {{.elementBytes = 2, .firstAbove = 64 << 20, .mostRows = 44, .weights = "i4"}, {.rows = 48}, kThreeCtas},
    {{.elementBytes = 2, .codeBits = 4, .firstAbove = 64 << 20, .mostRows = 72}, {.rows = 80, .step = 16}, kThreeCtas},
    {{.elementBytes = 2, .codeBits = 4, .mostRows = 74}, {.rows = 64}, kThreeCtas},
    {{.elementBytes = 2, .mostRows = 44}, {.rows = 64}, kMiddle},
    {{.elementBytes = 2, .mostRows = 104, .weights = "i4", .registers = Registers::None}, {.rows = 112, .step = 16}, kMiddle},
    {{.elementBytes = 2, .mostRows = 88}, {.rows = 96, .step = 16}, kMiddle},
    {{.elementBytes = 2, .weights = "i4", .registers = Registers::None}, {.rows = 160, .step = 16}, kMeasured},
    {{.elementBytes = 2, .weights = "f4E2M1FN i8 f8E4M3FN", .registers = Registers::Few}, {.rows = 144, .step = 16}, kMeasured},
    {{.elementBytes = 2}, {.rows = 128, .step = 16}, kMeasured},
    {{.elementBytes = 1, .mostRows = 12}, {.rows = 16}, kMeasured},
    {{.elementBytes = 1, .mostRows = 24}, {.rows = 32}, kMeasured},
    {{.elementBytes = 1, .mostRows = 40}, {.rows = 64}, kMeasured},
    {{.elementBytes = 1}, {.rows = 128, .step = 16}, kMeasured},
};

/// Schedule rules, best first. With tiles of 16 and 32 rows, mma_sync is
/// faster. For e4m3 activations, producers that gather would spill registers if
/// warpgroups had 128 weight rows.
constexpr ScheduleRule kRules[] = {
    {{.elementBytes = 2, .tileRows = 16, .leastN = 128}, {.tileN = 128, .stages = 9, .ctasPerSm = 3, .behindOthers = true}, kMeasured},
    {{.elementBytes = 2, .tileRows = 16, .leastN = 128}, {.tileN = 128, .stages = 10, .ctasPerSm = 2, .behindOthers = true}, kMeasured},
    {{.elementBytes = 2, .tileRows = 16, .leastN = 128}, {.tileN = 128, .stages = 8, .behindOthers = true}, kMeasured},
    {{.elementBytes = 2, .tileRows = 32, .leastN = 128}, {.tileN = 128, .stages = 8, .ctasPerSm = 2, .behindOthers = true}, kMeasured},
    {{.elementBytes = 2, .tileRows = 48, .codeBits = 4, .leastN = 128}, {.tileN = 128, .stages = 5, .ctasPerSm = 3, .warpgroupRows = 128}, kThreeCtas},
    {{.elementBytes = 2, .tileRows = 48, .leastN = 128}, {.tileN = 128, .stages = 6, .ctasPerSm = 2}, kThreeCtas},
    {{.elementBytes = 2, .tileRows = 64, .codeBits = 4, .leastN = 128}, {.tileN = 128, .stages = 4, .ctasPerSm = 3, .warpgroupRows = 128}, kThreeCtas},
    {{.elementBytes = 2, .tileRows = 64, .leastN = 128}, {.tileN = 128, .stages = 6, .ctasPerSm = 2}, kMeasured},
    {{.elementBytes = 2, .tileRows = 64, .leastN = 128}, {.tileN = 128, .stages = 6}, kMeasured},
    {{.elementBytes = 2, .tileRows = 80, .leastN = 128}, {.tileN = 128, .stages = 6, .ctasPerSm = 2, .warpgroupRows = 128}, kMiddle},
    {{.elementBytes = 2, .tileRows = 80, .leastN = 128}, {.tileN = 128, .stages = 6, .ctasPerSm = 2}, kMiddle},
    {{.elementBytes = 2, .tileRows = 96, .leastN = 128}, {.tileN = 128, .stages = 6, .ctasPerSm = 2, .warpgroupRows = 128}, kMiddle},
    {{.elementBytes = 2, .tileRows = 112, .leastN = 128}, {.tileN = 128, .stages = 5, .ctasPerSm = 2, .warpgroupRows = 128}, kMiddle},
    {{.elementBytes = 2, .tileRows = 160, .first = true, .leastN = 256, .firstAbove = 64 << 20}, {.tileN = 256, .stages = 5, .group = 4, .warpgroupRows = 128}, kMeasured},
    {{.elementBytes = 2, .tileRows = 160, .leastN = 256}, {.tileN = 256, .stages = 5, .warpgroupRows = 128}, kMeasured},
    {{.elementBytes = 2, .tileRows = 144, .first = true, .leastN = 256, .firstAbove = 64 << 20}, {.tileN = 256, .stages = 5, .group = 4, .warpgroupRows = 128}, kMeasured},
    {{.elementBytes = 2, .tileRows = 144, .leastN = 256}, {.tileN = 256, .stages = 5, .warpgroupRows = 128}, kMeasured},
    {{.elementBytes = 2, .tileRows = 128, .first = true, .leastN = 256, .firstAbove = 64 << 20}, {.tileN = 256, .stages = 6, .group = 4, .warpgroupRows = 128}, kMeasured},
    {{.elementBytes = 2, .tileRows = 128, .leastN = 256}, {.tileN = 256, .stages = 6, .warpgroupRows = 128}, kMeasured},
    {{.elementBytes = 2, .tileRows = 128, .leastN = 128}, {.tileN = 128, .stages = 5}, kMeasured},
    {{.elementBytes = 1, .tileRows = 16, .leastN = 128}, {.tileN = 128, .stages = 6, .ctasPerSm = 2}, kMeasured},
    {{.elementBytes = 1, .tileRows = 32, .leastN = 128}, {.tileN = 128, .stages = 6, .ctasPerSm = 2}, kMeasured},
    {{.elementBytes = 1, .tileRows = 64, .quantizesGroups = true, .leastN = 128}, {.tileN = 128, .stages = 4, .ctasPerSm = 2}, kFolded},
    {{.elementBytes = 1, .tileRows = 64, .leastN = 128}, {.tileN = 128, .stages = 6, .ctasPerSm = 2}, kMeasured},
    {{.elementBytes = 1, .tileRows = 128, .first = false, .leastN = 256}, {.tileN = 256, .stages = 5, .warpgroupRows = 128}, kMeasured},
    {{.elementBytes = 1, .tileRows = 128, .leastN = 128}, {.tileN = 128, .stages = 6}, kMeasured},
};
// clang-format on

class WgmmaRs final : public WarpSpecialized {
public:
  WgmmaRs() : WarpSpecialized("wgmma_rs") {}

  std::span<const TileRule> tileRules() const override { return kTileRules; }
  std::string possibleTileRows(const MatmulProblem &problem) const override {
    return fmt::format("multiples of 16 up to {}", mostTokens(problem));
  }

  std::span<const ScheduleRule>
  scheduleRules(const MatmulProblem &) const override {
    return kRules;
  }

private:
  double efficiency(const MatmulProblem &) const override { return 0.84; }
  std::optional<ConversionClocks> conversion() const override {
    return ConversionClocks{0.035, 0.58};
  }
  bool convertsFirst() const override { return true; }

  /// Returns the bytes of weights in one pipeline stage
  /// (templates/moe/matmul/feed/slab_stage.cuh).
  int64_t weightBytes(const MatmulProblem &problem,
                      const Schedule &schedule) const override {
    constexpr int64_t kAlignment = 1024;
    const int64_t bytes = slabBytes(problem, schedule);
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

  std::optional<std::string> whyNoTile(const MatmulProblem &problem,
                                       const Schedule &s) const override {
    if (auto reason = whyNoSlabs(problem))
      return reason;
    if (!s.roles().swap)
      return "weight rows are the rows of an instruction";
    if (s.tileM % 16 || s.tileM > mostTokens(problem))
      return fmt::format("tile m {} is no multiple of 16 up to {}", s.tileM,
                         mostTokens(problem));
    if (s.tileN != 64 && s.tileN != 128 && s.tileN != 256)
      return fmt::format("tile n {}; 64, 128 and 256 are possible", s.tileN);
    return std::nullopt;
  }

  /// Returns the maximum tile rows. Promotion needs registers for totals in
  /// addition to the accumulators.
  int64_t mostTokens(const MatmulProblem &problem) const override {
    return problem.isPromoted() ? 128 : 160;
  }

  Sums sums(const MatmulProblem &problem, const Schedule &s) const override {
    const int64_t atoms = rowsOfWarpgroup(s) / 64;
    const int64_t activation = problem.takesManyRegisters ? 40 : 0;
    // `others` includes the codes of an MMA's A operand, their converted values
    // and their scales.
    if (problem.isPromoted())
      return {s.tileM / 2 * (atoms + 1),
              40 + activation + (groupsOf(problem, s.tileK) > 1 ? 8 : 0),
              "sums and totals"};
    // Two sets of operand registers, and the codes and scales of a pipeline
    // stage. MMAs of 4-bit weights may be issued one at a time
    // (templates/moe/quant/slab_codes.cuh), which needs 16 registers fewer.
    const bool isLean = problem.codeBits == 4 && !problem.takesManyRegisters;
    const int64_t others =
        16 * atoms +
        (isLean ? 24 : 40 + activation + (problem.hasZeroPoints ? 8 : 0));
    return {s.tileM / 2 * atoms, others, "accumulators"};
  }
};
} // namespace

const Engine &engines::wgmma_rs() {
  static const WgmmaRs engine;
  return engine;
}
