//===- wgmma.cpp - engine wgmma -------------------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Supports sm_90a. The rows of an MMA are weight rows or, if operands are not
// swapped, tokens.
//
//===----------------------------------------------------------------------===//

#include "compiler/matmul/WarpSpecialized.h"

#include <fmt/core.h>

#include <algorithm>

using namespace moec;
using namespace moec::compiler;

namespace {
constexpr Measured kTiles = {"bench/notes/wgmma-h100.md", "2026-11-21"};
constexpr Measured kLarge = {"bench/notes/large-matmuls-h100.md", "2026-11-21"};
constexpr Measured kWide = {"bench/notes/large-matmuls-h100.md", "2026-11-26"};
constexpr Measured kSkewed = {"bench/notes/skewed-h100.md", "2026-11-27"};
constexpr Measured kChoice = {"bench/notes/choice-h100.md", "2026-11-28"};
constexpr Measured kDecode = {"bench/notes/decode-h100.md", "2026-11-21"};

/// Upper bound in bytes for a small first weight. Layers with small first
/// weights use larger tiles for few tokens.
constexpr int64_t kSmallFirst = 64 << 20;

/// A tile is multiplied with its actual number of rows, rounded up to 16. The
/// tile size therefore follows from the experts with the most tokens, not only
/// from the mean.
///
/// With `step`, an expert's rows are distributed evenly over its large tiles.
/// Without `step`, an expert's last tile may be short. A short tile reads as
/// many weights as a full tile, but later than the expert's other tiles, when
/// the weights are no longer in the L2 cache.
///
/// Tiles of 192 rows leave shared memory for more pipeline stages, and are used
/// if few experts have more rows. 8-bit operands need registers for totals in
/// addition to the accumulators, which limits the tile size. Wide tiles have
/// 256 weight rows, with tokens as the MMA's rows. They need half as many
/// copies and contain whole groups of the result.
// clang-format off
constexpr TileRule kTileRules[] = {
    {{.elementBytes = 1, .groupScales = true, .addsFast = false, .mostRows = 8}, {.rows = 32}, kSkewed},
    {{.elementBytes = 1, .addsFast = false, .firstUpTo = kSmallFirst, .mostRows = 8}, {.rows = 64}, kSkewed},
    {{.elementBytes = 1, .addsFast = false, .firstAbove = kSmallFirst, .mostRows = 48}, {.rows = 64}, kSkewed},
    {{.elementBytes = 1, .groupScales = true, .addsFast = false, .firstAbove = kSmallFirst, .mostRows = 128}, {.rows = 128}, kChoice},
    {{.elementBytes = 1, .groupScales = false, .addsFast = false, .mostRows = 128}, {.rows = 128}, kSkewed},
    {{.elementBytes = 1, .addsFast = false}, {.rows = 128, .isWide = true}, kWide},
    {{.elementBytes = 1, .groupScales = true, .addsFast = true, .mostRows = 8}, {.rows = 32}, kSkewed},
    {{.elementBytes = 1, .addsFast = true, .mostRows = 48}, {.rows = 64}, kSkewed},
    {{.elementBytes = 1, .addsFast = true, .mostRows = 128}, {.rows = 192}, kLarge},
    {{.elementBytes = 1, .addsFast = true}, {.rows = 128, .isWide = true}, kWide},
    {{.elementBytes = 2, .addsFast = false, .mostRows = 8}, {.rows = 64}, kSkewed},
    {{.elementBytes = 2, .addsFast = false, .mostRows = 160}, {.rows = 192, .step = 16}, kTiles},
    {{.elementBytes = 2, .addsFast = false}, {.rows = 256, .step = 16}, kTiles},
};
// clang-format on

/// Schedule rules, best first. Rules for 16-bit operands:
///
/// * The tile rules above never choose tiles of 16, 32 or 128 rows for 16-bit
///   operands; they are used only if the user or a tuned schedule asks for
///   them. Tiles of 16 rows with a first weight above 8 MiB are used only if no
///   other engine has a good schedule that is legal (behindOthers).
/// * If the first weight is larger than the L2 cache, the row tiles of a group
///   (`group`) use each weight tile at the same time, so it is read once per
///   group. If the first weight is small, groups in the second matmul let its
///   column tiles share the lhs rows.
///
/// Rules for 8-bit operands:
///
/// * With few tokens, a tile reads short weight rows in less time than it needs
///   to start and end. Such a tile has 256 weight rows (four warpgroups). A
///   tile that quantizes groups has the same width, and multiplies two of its
///   column tiles at a time.
/// * If k is short, an epilogue takes as long as the MMAs. A second CTA per SM
///   hides the epilogue.
/// * If scales change along k and there are many tokens, promotion takes as
///   long as the MMAs. Promotion is fastest if each thread has few tokens.
// clang-format off
constexpr ScheduleRule kRules[] = {
    {{.elementBytes = 2, .tileRows = 16, .firstUpTo = 8 << 20}, {.tileN = 128, .stages = 10}, kDecode},
    {{.elementBytes = 2, .tileRows = 16}, {.tileN = 128, .stages = 10, .behindOthers = true}, kTiles},
    {{.elementBytes = 2, .tileRows = 32}, {.tileN = 128, .stages = 8}, kTiles},
    {{.elementBytes = 2, .tileRows = 64}, {.tileN = 128, .stages = 9}, kSkewed},
    {{.elementBytes = 2, .tileRows = 64}, {.tileN = 128, .stages = 8}, kTiles},
    {{.elementBytes = 2, .tileRows = 128}, {.tileN = 128, .stages = 6}, kTiles},
    {{.elementBytes = 2, .tileRows = 192, .first = true, .firstAbove = 64 << 20}, {.tileN = 128, .stages = 5, .group = 4}, kTiles},
    {{.elementBytes = 2, .tileRows = 192, .first = false, .firstUpTo = (16 << 20) - 1}, {.tileN = 128, .stages = 5, .group = 4}, kTiles},
    {{.elementBytes = 2, .tileRows = 192}, {.tileN = 128, .stages = 5}, kTiles},
    {{.elementBytes = 2, .tileRows = 256, .first = true, .firstAbove = 64 << 20}, {.tileN = 128, .stages = 4, .group = 4}, kTiles},
    {{.elementBytes = 2, .tileRows = 256, .first = false, .firstUpTo = (16 << 20) - 1}, {.tileN = 128, .stages = 4, .group = 4}, kTiles},
    {{.elementBytes = 2, .tileRows = 256}, {.tileN = 128, .stages = 4}, kTiles},
    {{.elementBytes = 1, .tileRows = 16, .first = false, .rowBytesUpTo = 384}, {.tileN = 256, .stages = 6}, kDecode},
    {{.elementBytes = 1, .tileRows = 16, .quantizesGroups = true}, {.tileN = 256, .stages = 6}, kDecode},
    {{.elementBytes = 1, .tileRows = 16}, {.tileN = 128, .stages = 10}, kTiles},
    {{.elementBytes = 1, .tileRows = 32, .first = false, .rowBytesUpTo = 384}, {.tileN = 256, .stages = 5}, kSkewed},
    {{.elementBytes = 1, .tileRows = 32, .quantizesGroups = true}, {.tileN = 256, .stages = 5}, kSkewed},
    {{.elementBytes = 1, .tileRows = 32}, {.tileN = 128, .stages = 10}, kSkewed},
    {{.elementBytes = 1, .tileRows = 32}, {.tileN = 128, .stages = 8}, kTiles},
    {{.elementBytes = 1, .tileRows = 64, .first = false, .rowBytesUpTo = 384}, {.tileN = 128, .stages = 4, .ctasPerSm = 2, .warpgroupRows = 128}, kLarge},
    {{.elementBytes = 1, .tileRows = 64}, {.tileN = 64, .stages = 5, .ctasPerSm = 2}, kTiles},
    {{.elementBytes = 1, .tileRows = 64}, {.tileN = 128, .stages = 8}, kTiles},
    {{.elementBytes = 1, .tileRows = 128, .first = false, .firstUpTo = (16 << 20) - 1, .rowBytesUpTo = 512}, {.tileN = 128, .stages = 3, .ctasPerSm = 2, .warpgroupRows = 128}, kChoice},
    {{.elementBytes = 1, .tileRows = 128, .first = true, .rowsByExpert = false, .isWide = true, .firstAbove = 64 << 20}, {.tileN = 256, .stages = 4, .group = 4, .swap = false}, kWide},
    {{.elementBytes = 1, .tileRows = 128, .rowsByExpert = false, .isWide = true}, {.tileN = 256, .stages = 4, .swap = false}, kWide},
    {{.elementBytes = 1, .tileRows = 128, .rowsByExpert = false, .isWide = true}, {.tileN = 256, .stages = 3, .swap = false}, kWide},
    {{.elementBytes = 1, .tileRows = 128, .first = true, .groupScales = true, .rowsByExpert = false, .firstAbove = 64 << 20}, {.tileN = 128, .stages = 6, .group = 4, .swap = false}, kLarge},
    {{.elementBytes = 1, .tileRows = 128, .groupScales = true, .rowsByExpert = false}, {.tileN = 128, .stages = 6, .swap = false}, kLarge},
    {{.elementBytes = 1, .tileRows = 128, .groupScales = true, .rowsByExpert = false}, {.tileN = 128, .stages = 5, .swap = false}, kLarge},
    {{.elementBytes = 1, .tileRows = 128, .first = true, .firstAbove = 64 << 20}, {.tileN = 128, .stages = 5, .group = 4}, kTiles},
    {{.elementBytes = 1, .tileRows = 128}, {.tileN = 128, .stages = 5}, kTiles},
    {{.elementBytes = 1, .tileRows = 192, .first = true, .firstAbove = 64 << 20}, {.tileN = 128, .stages = 5, .group = 4}, kLarge},
    {{.elementBytes = 1, .tileRows = 192}, {.tileN = 128, .stages = 5}, kLarge},
};
// clang-format on

class Wgmma final : public WarpSpecialized {
public:
  Wgmma() : WarpSpecialized("wgmma") {}

  std::span<const TileRule> tileRules() const override { return kTileRules; }
  std::span<const ScheduleRule>
  scheduleRules(const MatmulProblem &) const override {
    return kRules;
  }
  std::string possibleTileRows(const MatmulProblem &problem) const override {
    return problem.elementBytes == 1 ? "multiples of 16 up to 128"
                                     : "multiples of 16 up to 256";
  }
  bool hasSlices() const override { return true; }
  /// Returns true for 8-bit operands and large tiles. Smaller tiles issue too
  /// few copies to benefit from TMA.
  bool mapsRows(const MatmulProblem &problem,
                const Schedule &s) const override {
    return problem.elementBytes == 1 && s.tileM >= 2 * kBoxRows &&
           s.tileM % kBoxRows == 0;
  }
  std::optional<std::string>
  whyGroupsApart(const MatmulProblem &problem) const override {
    if (problem.groupColumns == kScaledColumns && problem.gather &&
        problem.tileRows == 128 && isWide(problem))
      return std::nullopt;
    return WarpSpecialized::whyGroupsApart(problem);
  }

private:
  bool isPromoted(const MatmulProblem &problem) const override {
    return problem.isPromoted(row.addsFast);
  }

  /// Measured at the clock rate that the GPU sustains at its power limit.
  double efficiency(const MatmulProblem &problem) const override {
    return problem.elementBytes == 1 ? 0.69 : 0.74;
  }

  std::optional<std::string> whyNoTile(const MatmulProblem &problem,
                                       const Schedule &s) const override {
    // Totals need registers in addition to the accumulators, and so do the
    // scales of 256 tokens.
    int64_t mostRows = !s.roles().swap             ? 192
                       : isPromoted(problem)       ? 128
                       : problem.elementBytes == 1 ? 192
                                                   : 256;
    if (s.tileM % 16 || s.tileM > mostRows)
      return fmt::format("tile m {} is no multiple of 16 up to {}", s.tileM,
                         mostRows);
    // The templates support every n up to 256, but only these sizes have run on
    // a GPU.
    if (s.tileN != 64 && s.tileN != 128 && s.tileN != 256)
      return fmt::format("tile n {}; 64, 128 and 256 are possible", s.tileN);
    if (!s.roles().swap && s.tileN == 256)
      return whyNotWide(problem, s);
    if (!s.roles().swap && (!problem.groupScales || problem.quantizesGroups() ||
                            problem.quantizesOtherwise))
      return "operands must be swapped, except with scales per group along k "
             "and a result that is not quantized";
    if (!s.roles().swap && s.tileM % 64)
      return fmt::format("tokens are rows of an instruction by 64, not {}",
                         s.tileM);
    if (!s.roles().swap && s.tileN != 128)
      return fmt::format("tile n {}; tokens as rows of an instruction take 128",
                         s.tileN);
    return std::nullopt;
  }

  static std::optional<std::string> whyNotWide(const MatmulProblem &problem,
                                               const Schedule &s) {
    if (problem.elementBytes != 1 || problem.quantizesOtherwise)
      return "operands must be swapped, except 8-bit operands with a result "
             "that is not quantized, or quantized by groups";
    if (s.tileM != 128)
      return fmt::format("tile m {}; 128 tokens as rows of an instruction take "
                         "256 weight rows",
                         s.tileM);
    return std::nullopt;
  }

  Sums sums(const MatmulProblem &problem, const Schedule &s) const override {
    // 24 other registers suffice in two cases. A warpgroup with 128 rows
    // promotes the accumulators of 64 rows at a time. Schedules with tokens as
    // the MMA's rows need no buffer registers.
    const bool whole = rowsOfWarpgroup(s) == 128;
    const int64_t columns = s.roles().swap ? s.tileM : s.tileN;
    Sums taken{columns / 2 * (rowsOfWarpgroup(s) / 64),
               whole || !s.roles().swap ? 24 : 64, "accumulators"};
    // Storing 32-bit results and adding biases needs more address registers.
    if (!s.roles().swap && s.tileN == 256 && problem.resultBytes == 4 &&
        !problem.quantizesGroups() &&
        (problem.hasBias ||
         (!problem.gated && (problem.first || !problem.groupScales))))
      taken.others += 24;
    if (isPromoted(problem)) {
      // Accumulators of 128 columns are promoted at a time.
      taken.registers += std::min<int64_t>(columns, 128) / 2;
      taken.words = "sums, totals and scales";
    }
    if (problem.groupScales && s.roles().swap && !whole)
      taken.registers += s.tileM / 4;
    return taken;
  }
};
} // namespace

const Engine &engines::wgmma() {
  static const Wgmma engine;
  return engine;
}
