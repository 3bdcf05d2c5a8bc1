//===- wgmma_rs.cpp - converts weights and multiplies by wgmma ------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Serves sm_90a and weights of 4, 6 and 8 bits by activations of 16 bits, and
// of 4 by e4m3. Weight rows are the rows of an instruction and lie in
// registers, tokens are its columns.
//
//===----------------------------------------------------------------------===//

#include "compiler/engine/Slabs.h"
#include "compiler/engine/WarpSpecialized.h"

#include <fmt/core.h>

#include <algorithm>

using namespace moec;
using namespace moec::compiler;

namespace {
constexpr Measured kMeasured = {"bench/notes/weight-only-h100.md",
                                "2026-11-24"};
/// Rows of a tile of experts with 40 to 110 tokens.
constexpr Measured kMiddle = {"bench/notes/weight-only-h200.md", "2026-11-29"};

// clang-format off
constexpr TileRule kTileRules[] = {
    {.elementBytes = 2, .rows = 16, .most = 12, .measured = kMeasured},
    {.elementBytes = 2, .rows = 32, .most = 20, .measured = kMeasured},
    {.elementBytes = 2, .rows = 64, .most = 44, .measured = kMiddle},
    {.elementBytes = 2, .rows = 112, .most = 104, .step = 16, .measured = kMiddle, .weights = "i4"},
    {.elementBytes = 2, .rows = 96, .most = 88, .step = 16, .measured = kMiddle},
    {.elementBytes = 2, .rows = 160, .step = 16, .measured = kMeasured, .weights = "i4"},
    {.elementBytes = 2, .rows = 144, .step = 16, .measured = kMeasured, .weights = "f4E2M1FN i8 f8E4M3FN", .leavesFewRegisters = true},
    {.elementBytes = 2, .rows = 128, .step = 16, .measured = kMeasured},
    {.elementBytes = 1, .rows = 16, .most = 12, .measured = kMeasured},
    {.elementBytes = 1, .rows = 32, .most = 24, .measured = kMeasured},
    {.elementBytes = 1, .rows = 64, .most = 40, .measured = kMeasured},
    {.elementBytes = 1, .rows = 128, .step = 16, .measured = kMeasured},
};

/// One row: serves m tiles of so many rows, best first.
struct Row {
  int64_t tileM, tileN, stages, warpgroupRows;
  int64_t elementBytes = 2;
  int64_t firstAbove = 0;  ///< first matmuls alone, of so many weight elements
  bool secondAlone = false; ///< producers that gather would spill
  int64_t groupM = 1, ctasPerSm = 1;
  bool behindOthers = false; ///< mma_sync is faster
  Measured measured = kMeasured;
};

constexpr Row kRows[] = {
    {.tileM = 16, .tileN = 128, .stages = 9, .warpgroupRows = 64, .ctasPerSm = 3, .behindOthers = true},
    {.tileM = 16, .tileN = 128, .stages = 10, .warpgroupRows = 64, .ctasPerSm = 2, .behindOthers = true},
    {.tileM = 16, .tileN = 128, .stages = 8, .warpgroupRows = 64, .behindOthers = true},
    {.tileM = 32, .tileN = 128, .stages = 8, .warpgroupRows = 64, .ctasPerSm = 2, .behindOthers = true},
    {.tileM = 64, .tileN = 128, .stages = 6, .warpgroupRows = 64, .ctasPerSm = 2},
    {.tileM = 64, .tileN = 128, .stages = 6, .warpgroupRows = 64},
    {.tileM = 96, .tileN = 128, .stages = 6, .warpgroupRows = 128, .ctasPerSm = 2, .measured = kMiddle},
    {.tileM = 112, .tileN = 128, .stages = 5, .warpgroupRows = 128, .ctasPerSm = 2, .measured = kMiddle},
    {.tileM = 160, .tileN = 256, .stages = 5, .warpgroupRows = 128, .firstAbove = 32 << 20, .groupM = 4},
    {.tileM = 160, .tileN = 256, .stages = 5, .warpgroupRows = 128},
    {.tileM = 144, .tileN = 256, .stages = 5, .warpgroupRows = 128, .firstAbove = 32 << 20, .groupM = 4},
    {.tileM = 144, .tileN = 256, .stages = 5, .warpgroupRows = 128},
    {.tileM = 128, .tileN = 256, .stages = 6, .warpgroupRows = 128, .firstAbove = 32 << 20, .groupM = 4},
    {.tileM = 128, .tileN = 256, .stages = 6, .warpgroupRows = 128},
    {.tileM = 128, .tileN = 128, .stages = 5, .warpgroupRows = 64},
    {.tileM = 16, .tileN = 128, .stages = 6, .warpgroupRows = 64, .elementBytes = 1, .ctasPerSm = 2},
    {.tileM = 32, .tileN = 128, .stages = 6, .warpgroupRows = 64, .elementBytes = 1, .ctasPerSm = 2},
    {.tileM = 64, .tileN = 128, .stages = 6, .warpgroupRows = 64, .elementBytes = 1, .ctasPerSm = 2},
    {.tileM = 128, .tileN = 256, .stages = 5, .warpgroupRows = 128, .elementBytes = 1, .secondAlone = true},
    {.tileM = 128, .tileN = 128, .stages = 6, .warpgroupRows = 64, .elementBytes = 1},
};
// clang-format on

class WgmmaRs final : public WarpSpecialized {
public:
  WgmmaRs() : WarpSpecialized("wgmma_rs") {}

  std::span<const TileRule> tileRules() const override { return kTileRules; }
  std::string possibleTileRows(const MatmulProblem &problem) const override {
    return fmt::format("multiples of 16 up to {}", mostTokens(problem));
  }

  std::vector<GoodSchedule> goodSchedules(const MatmulProblem &problem,
                                          const Hardware &) const override {
    std::vector<GoodSchedule> good;
    for (const Row &r : kRows) {
      if (r.tileM != problem.tileRows || r.tileN > problem.n ||
          r.elementBytes != problem.elementBytes ||
          (r.secondAlone && problem.first) ||
          (r.firstAbove &&
           (!problem.first || problem.n * problem.k <= r.firstAbove)))
        continue;
      Schedule s;
      s.engine = row.name;
      s.tileM = r.tileM, s.tileN = r.tileN;
      s.tileK = slabColumns(r.elementBytes);
      s.stages = r.stages;
      s.groupM = r.groupM;
      s.ctasPerSm = r.ctasPerSm;
      setRoles(s, r.warpgroupRows);
      good.push_back({s, r.behindOthers});
    }
    return good;
  }

private:
  double efficiency(const MatmulProblem &) const override { return 0.84; }
  std::optional<ConversionClocks> conversion() const override {
    return ConversionClocks{0.035, 0.58};
  }
  bool convertsFirst() const override { return true; }

  /// The stage's weights: templates/moe/matmul/feed/slab_stage.cuh.
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
    if (problem.quantizesGroups())
      return "a result that is quantized by groups is of another engine";
    if (s.tileM % 16 || s.tileM > mostTokens(problem))
      return fmt::format("tile m {} is no multiple of 16 up to {}", s.tileM,
                         mostTokens(problem));
    if (s.tileN != 64 && s.tileN != 128 && s.tileN != 256)
      return fmt::format("tile n {}; 64, 128 and 256 are possible", s.tileN);
    return std::nullopt;
  }

  /// Sums that are promoted have totals beside them.
  int64_t mostTokens(const MatmulProblem &problem) const override {
    return problem.isPromoted() ? 128 : 160;
  }

  Sums sums(const MatmulProblem &problem, const Schedule &s) const override {
    const int64_t atoms = rowsOfWarpgroup(s) / 64;
    const int64_t activation = problem.takesManyRegisters ? 40 : 0;
    // The codes of an atom, what they become and their scales.
    if (problem.isPromoted())
      return {s.tileM / 2 * (atoms + 1),
              40 + activation + (groupsOf(problem, s.tileK) > 1 ? 8 : 0),
              "sums and totals"};
    // Two sets of registers, the codes of a stage and their scales.
    const int64_t others =
        40 + 16 * atoms + activation + (problem.hasZeroPoints ? 8 : 0);
    return {s.tileM / 2 * atoms, others, "accumulators"};
  }
};
} // namespace

const Engine &engines::wgmma_rs() {
  static const WgmmaRs engine;
  return engine;
}
