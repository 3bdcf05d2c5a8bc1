//===- wgmma.cpp - multiplies by wgmma ------------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Serves sm_90a. Weight rows are the rows of an instruction, or tokens are.
//
//===----------------------------------------------------------------------===//

#include "compiler/engine/WarpSpecialized.h"

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

/// Rows of an expert in the mean, up to which tiles of 8-bit operands have 128
/// weight rows, and where TileRule::mostOfSmall counts. Beyond it they have
/// 256, with tokens as an instruction's rows: half as many copies, and whole
/// groups of the result.
constexpr double kNarrow = 128, kNarrowOfSmall = 8;

/// A tile is multiplied by the rows that it really has, by 16 at least. So rows
/// follow from the experts that get most tokens, not from the mean alone. Large
/// tiles may be alike: a short last one reads as much weight as a full one, and
/// later than its neighbours, when the L2 has forgotten it. Tiles of 192 rows
/// leave shared memory for a deeper ring where few experts have more. Operands
/// of 8 bits leave room for totals beside the sums.
// clang-format off
constexpr TileRule kTileRules[] = {
    {.elementBytes = 1, .rows = 32, .most = 8, .groupScales = true, .measured = kSkewed},
    {.elementBytes = 1, .rows = 64, .most = 48, .mostOfSmall = 8, .measured = kSkewed},
    {.elementBytes = 1, .rows = 128, .most = kNarrow, .mostOfSmall = kNarrowOfSmall, .groupScales = true, .measured = kChoice},
    {.elementBytes = 1, .rows = 128, .most = kNarrow, .groupScales = false, .measured = kSkewed},
    {.elementBytes = 1, .rows = 128, .measured = kWide},
    {.elementBytes = 1, .rows = 32, .most = 8, .addsFast = true, .groupScales = true, .measured = kSkewed},
    {.elementBytes = 1, .rows = 64, .most = 48, .addsFast = true, .measured = kSkewed},
    {.elementBytes = 1, .rows = 192, .most = kNarrow, .addsFast = true, .measured = kLarge},
    {.elementBytes = 1, .rows = 128, .addsFast = true, .measured = kWide},
    {.elementBytes = 2, .rows = 64, .most = 8, .measured = kSkewed},
    {.elementBytes = 2, .rows = 192, .most = 160, .step = 16, .measured = kTiles},
    {.elementBytes = 2, .rows = 256, .step = 16, .measured = kTiles},
};
// clang-format on

/// One row: serves operands of so many bytes and m tiles of so many rows, and
/// of those what its conditions say. Sizes of weights are those of an expert,
/// in bytes; 0: all.
struct Row {
  int64_t elementBytes, tileM;
  int64_t firstAbove = 0;     ///< first matmuls alone, of weights above
  int64_t secondBelow = 0;    ///< second matmuls alone, of weights below
  int64_t secondRowBytes = 0; ///< second matmuls alone, of weight rows up to
  int64_t mostFirst = 0;      ///< layers whose first weight is at most, and the
                              ///< second one half of it
  bool ofGroups = false;      ///< results alone that are quantized by groups
  /// Scales of groups along k alone, with tokens as an instruction's rows.
  bool tokensAsRows = false;
  bool wide = false; ///< tiles alone of 256 weight rows: see kNarrow
  bool behindOthers = false;
  int64_t tileN = 128, stages = 0, ctasPerSm = 1, groupM = 1;
  int64_t warpgroupRows = 64; ///< see rowsOfWarpgroup()
  Measured measured;
};

/// Best first. Rows for 16-bit operands:
///
/// * Tiles of 32 and 128 rows, and of 16 rows of large experts, serve only
///   those who ask for them. Tiles of small experts run beside each other.
/// * Tiles share a weight that is larger than the L2 cache while it passes. If
///   it is small, the column tiles of down share the rows.
///
/// Rows for 8-bit operands:
///
/// * Short weight rows of few tokens are read faster than a tile starts and
///   ends. Such a tile is four warpgroups wide. So is one that quantizes
///   groups: two of its column tiles are multiplied at a time.
/// * An epilogue takes as long as the multiplies if k is short. A second CTA
///   hides it.
/// * Sums take as long as multiplies if scales change along k and tokens are
///   many. A thread with few tokens takes least.
// clang-format off
constexpr Row kRows[] = {
    {.elementBytes = 2, .tileM = 16, .mostFirst = 8 << 20, .stages = 10, .measured = kDecode},
    {.elementBytes = 2, .tileM = 16, .behindOthers = true, .stages = 10, .measured = kTiles},
    {.elementBytes = 2, .tileM = 32, .stages = 8, .measured = kTiles},
    {.elementBytes = 2, .tileM = 64, .stages = 9, .measured = kSkewed},
    {.elementBytes = 2, .tileM = 64, .stages = 8, .measured = kTiles},
    {.elementBytes = 2, .tileM = 128, .stages = 6, .measured = kTiles},
    {.elementBytes = 2, .tileM = 192, .firstAbove = 64 << 20, .stages = 5, .groupM = 4, .measured = kTiles},
    {.elementBytes = 2, .tileM = 192, .secondBelow = 8 << 20, .stages = 5, .groupM = 4, .measured = kTiles},
    {.elementBytes = 2, .tileM = 192, .stages = 5, .measured = kTiles},
    {.elementBytes = 2, .tileM = 256, .firstAbove = 64 << 20, .stages = 4, .groupM = 4, .measured = kTiles},
    {.elementBytes = 2, .tileM = 256, .secondBelow = 8 << 20, .stages = 4, .groupM = 4, .measured = kTiles},
    {.elementBytes = 2, .tileM = 256, .stages = 4, .measured = kTiles},
    {.elementBytes = 1, .tileM = 16, .secondRowBytes = 384, .tileN = 256, .stages = 6, .measured = kDecode},
    {.elementBytes = 1, .tileM = 16, .ofGroups = true, .tileN = 256, .stages = 6, .measured = kDecode},
    {.elementBytes = 1, .tileM = 16, .stages = 10, .measured = kTiles},
    {.elementBytes = 1, .tileM = 32, .secondRowBytes = 384, .tileN = 256, .stages = 5, .measured = kSkewed},
    {.elementBytes = 1, .tileM = 32, .ofGroups = true, .tileN = 256, .stages = 5, .measured = kSkewed},
    {.elementBytes = 1, .tileM = 32, .stages = 10, .measured = kSkewed},
    {.elementBytes = 1, .tileM = 32, .stages = 8, .measured = kTiles},
    {.elementBytes = 1, .tileM = 64, .secondRowBytes = 384, .stages = 4, .ctasPerSm = 2, .warpgroupRows = 128, .measured = kLarge},
    {.elementBytes = 1, .tileM = 64, .tileN = 64, .stages = 5, .ctasPerSm = 2, .measured = kTiles},
    {.elementBytes = 1, .tileM = 64, .stages = 8, .measured = kTiles},
    {.elementBytes = 1, .tileM = 128, .secondBelow = 8 << 20, .secondRowBytes = 512, .stages = 3, .ctasPerSm = 2, .warpgroupRows = 128, .measured = kChoice},
    {.elementBytes = 1, .tileM = 128, .firstAbove = 64 << 20, .tokensAsRows = true, .wide = true, .tileN = 256, .stages = 4, .groupM = 4, .measured = kWide},
    {.elementBytes = 1, .tileM = 128, .tokensAsRows = true, .wide = true, .tileN = 256, .stages = 4, .measured = kWide},
    {.elementBytes = 1, .tileM = 128, .tokensAsRows = true, .wide = true, .tileN = 256, .stages = 3, .measured = kWide},
    {.elementBytes = 1, .tileM = 128, .firstAbove = 64 << 20, .tokensAsRows = true, .stages = 6, .groupM = 4, .measured = kLarge},
    {.elementBytes = 1, .tileM = 128, .tokensAsRows = true, .stages = 6, .measured = kLarge},
    {.elementBytes = 1, .tileM = 128, .tokensAsRows = true, .stages = 5, .measured = kLarge},
    {.elementBytes = 1, .tileM = 128, .firstAbove = 64 << 20, .stages = 5, .groupM = 4, .measured = kTiles},
    {.elementBytes = 1, .tileM = 128, .stages = 5, .measured = kTiles},
    {.elementBytes = 1, .tileM = 192, .firstAbove = 64 << 20, .stages = 5, .groupM = 4, .measured = kLarge},
    {.elementBytes = 1, .tileM = 192, .stages = 5, .measured = kLarge},
};
// clang-format on

/// firstBytes: of an expert's first weight.
bool isWide(bool groupScales, int64_t firstBytes, double meanRows) {
  const bool small = groupScales && firstBytes <= TileRule::kSmallFirst;
  return meanRows > (small ? kNarrowOfSmall : kNarrow);
}

bool serves(const Row &r, const MatmulProblem &p) {
  const int64_t weight = p.n * p.k * p.elementBytes;
  // Rows that come by expert were measured with swapped operands alone.
  const bool mayTakeTokens =
      (p.groupScales || r.wide) && (!p.first || p.gather);
  return r.elementBytes == p.elementBytes && r.tileM == p.tileRows &&
         (!r.firstAbove || (p.first && weight > r.firstAbove)) &&
         (!r.secondBelow || (!p.first && weight < r.secondBelow)) &&
         (!r.secondRowBytes ||
          (!p.first && p.k * p.elementBytes <= r.secondRowBytes)) &&
         (!r.mostFirst || (p.first ? weight : 2 * weight) <= r.mostFirst) &&
         (!r.ofGroups || p.quantizesGroups()) &&
         (!r.tokensAsRows || mayTakeTokens) &&
         (!r.wide ||
          isWide(p.groupScales, p.first ? weight : 2 * weight, p.meanRows()));
}

class Wgmma final : public WarpSpecialized {
public:
  Wgmma() : WarpSpecialized("wgmma") {}

  std::span<const TileRule> tileRules() const override { return kTileRules; }
  std::string possibleTileRows(const MatmulProblem &problem) const override {
    return problem.elementBytes == 1 ? "multiples of 16 up to 128"
                                     : "multiples of 16 up to 256";
  }
  bool hasSlices() const override { return true; }
  /// Tiles of fewer rows have fewer copies.
  bool mapsRows(const MatmulProblem &problem,
                const Schedule &s) const override {
    return problem.elementBytes == 1 && s.tileM >= 2 * kBoxRows &&
           s.tileM % kBoxRows == 0;
  }
  std::optional<std::string>
  whyGroupsApart(const GroupedResult &result) const override {
    if (result.columns == kScaledColumns && result.tileRows == 128 &&
        result.gathers &&
        isWide(result.groupScales, result.firstBytes, result.meanRows))
      return std::nullopt;
    return WarpSpecialized::whyGroupsApart(result);
  }

  std::vector<GoodSchedule> goodSchedules(const MatmulProblem &problem,
                                          const Hardware &) const override {
    std::vector<GoodSchedule> good;
    for (const Row &r : kRows) {
      if (!serves(r, problem))
        continue;
      Schedule s;
      s.engine = row.name;
      s.tileM = r.tileM, s.tileN = r.tileN, s.tileK = 128 / r.elementBytes;
      s.stages = r.stages;
      s.groupM = r.groupM;
      // Roles share the registers that the number of CTAs leaves.
      s.ctasPerSm = r.ctasPerSm;
      setRoles(s, r.warpgroupRows, !r.tokensAsRows);
      good.push_back({s, r.behindOthers});
    }
    return good;
  }

private:
  bool isPromoted(const MatmulProblem &problem) const override {
    return problem.isPromoted(row.addsFast);
  }

  /// With the clock that a card keeps at its limit of power.
  double efficiency(const MatmulProblem &problem) const override {
    return problem.elementBytes == 1 ? 0.69 : 0.74;
  }

  std::optional<std::string> whyNoTile(const MatmulProblem &problem,
                                       const Schedule &s) const override {
    // Totals beside the sums take registers, and so do scales of 256 tokens.
    int64_t mostRows = !s.roles().swap             ? 192
                       : isPromoted(problem)       ? 128
                       : problem.elementBytes == 1 ? 192
                                                   : 256;
    if (s.tileM % 16 || s.tileM > mostRows)
      return fmt::format("tile m {} is no multiple of 16 up to {}", s.tileM,
                         mostRows);
    // The templates can be instantiated with up to 256; these ran on a GPU.
    if (s.tileN != 64 && s.tileN != 128 && s.tileN != 256)
      return fmt::format("tile n {}; 64, 128 and 256 are possible", s.tileN);
    if (!s.roles().swap && s.tileN == 256)
      return whyNotWide(problem, s);
    if (!s.roles().swap && (!problem.groupScales || problem.quantizesGroups() ||
                            problem.quantizesOtherwise))
      return "operands are swapped but for scales of groups along k and a "
             "result that is not quantized";
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
      return "operands are swapped but for those of 8 bits and a result that "
             "is not quantized, or by groups";
    if (s.tileM != 128)
      return fmt::format("tile m {}; 128 tokens as rows of an instruction take "
                         "256 weight rows",
                         s.tileM);
    return std::nullopt;
  }

  Sums sums(const MatmulProblem &problem, const Schedule &s) const override {
    // A warpgroup with the sums of 128 rows promotes those of 64 at a time, and
    // tokens as rows take no buffers: there 24 suffice beside them.
    const bool whole = rowsOfWarpgroup(s) == 128;
    const int64_t columns = s.roles().swap ? s.tileM : s.tileN;
    Sums taken{columns / 2 * (rowsOfWarpgroup(s) / 64),
               whole || !s.roles().swap ? 24 : 64, "accumulators"};
    // Results of 32 bits are stored from more addresses, and so are biases.
    if (!s.roles().swap && s.tileN == 256 && problem.resultBytes == 4 &&
        !problem.quantizesGroups() &&
        (problem.hasBias ||
         (!problem.gated && (problem.first || !problem.groupScales))))
      taken.others += 24;
    if (isPromoted(problem)) {
      // A piece of 128 columns is summed at a time.
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
