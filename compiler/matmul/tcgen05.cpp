//===- tcgen05.cpp - engine tcgen05 ---------------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Supports sm_100a and its family. Weight rows are the 128 rows of an MMA, and
// tokens are its columns. Accumulators are in tensor memory. The rules are not
// measured: they follow from the sizes of shared memory, registers and tensor
// memory. Kernels of this engine have only run on an emulator.
//
//===----------------------------------------------------------------------===//

#include "compiler/matmul/WarpSpecialized.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>

using namespace moec;
using namespace moec::compiler;

/// Weight rows of an MMA, and weight rows per consumer warpgroup.
static constexpr int64_t kRows = 128;
/// Maximum tile rows (tokens). A thread holds the accumulators for two weight
/// rows.
static constexpr int64_t kMostTokens = 128;
/// Size of a scale block, in bytes of shared memory and in columns of tensor
/// memory. A scale block has 128 rows of four 8-bit scales.
static constexpr int64_t kAtomBytes = 512, kAtomColumns = 4;

/// Returns the bytes along k that share a block scale, or 0 if the operands are
/// not block-scaled. A power-of-two scale of 128 elements is repeated for four
/// blocks.
static int64_t bytesOfScale(const MatmulProblem &problem) {
  constexpr int64_t kStepBytes = 32;
  return problem.powerGroups ? kStepBytes : problem.blockBytes;
}

/// Returns the number of scale blocks of lhs and weights together in one
/// pipeline stage. Returns 0 if the operands are not block-scaled.
static int64_t scaleAtoms(const MatmulProblem &problem, const Schedule &s) {
  const int64_t bytes = bytesOfScale(problem);
  return bytes > 0 ? 2 * (s.tileK / bytes / 4) : 0;
}

/// Number of 32-bit tensor memory columns per SM, and the smallest allocation
/// of a CTA.
static constexpr int64_t kColumnsOfSm = 512, kFewestColumns = 32;

namespace {
/// The MMA's N is the number of tokens in the tile, rounded up to 16. A large
/// tile therefore needs more shared memory and registers, but no MMAs on
/// padding.
// clang-format off
constexpr TileRule kTileRules[] = {
    {{.mostRows = 8}, {.rows = 32}},
    {{.mostRows = 48}, {.rows = 64}},
    {{}, {.rows = 128, .step = 16}},
};

/// Schedule rules, best first. With two CTAs per SM, one multiplies during the
/// other's epilogue. With 128 tokens, promoted accumulators leave registers for
/// only one CTA per SM.
constexpr ScheduleRule kRules[] = {
    {{.tileRows = 16}, {.tileN = 128, .stages = 5, .ctasPerSm = 2, .warpgroupRows = kRows}},
    {{.tileRows = 32}, {.tileN = 128, .stages = 5, .ctasPerSm = 2, .warpgroupRows = kRows}},
    {{.tileRows = 32}, {.tileN = 128, .stages = 4, .ctasPerSm = 2, .warpgroupRows = kRows}},
    {{.tileRows = 64}, {.tileN = 128, .stages = 4, .ctasPerSm = 2, .warpgroupRows = kRows}},
    {{.tileRows = 64}, {.tileN = 128, .stages = 3, .ctasPerSm = 2, .warpgroupRows = kRows}},
    {{.tileRows = 128, .first = true, .firstAbove = 64 << 20}, {.tileN = 128, .stages = 3, .group = 4, .ctasPerSm = 2, .warpgroupRows = kRows}},
    {{.tileRows = 128}, {.tileN = 128, .stages = 3, .ctasPerSm = 2, .warpgroupRows = kRows}},
    {{.tileRows = 128, .first = true, .firstAbove = 64 << 20}, {.tileN = 128, .stages = 6, .group = 4, .warpgroupRows = kRows}},
    {{.tileRows = 128}, {.tileN = 128, .stages = 6, .warpgroupRows = kRows}},
    {{.tileRows = 128}, {.tileN = 128, .stages = 5, .warpgroupRows = kRows}},
};
// clang-format on

class Tcgen05 final : public WarpSpecialized {
public:
  Tcgen05() : WarpSpecialized("tcgen05") {}

  std::span<const TileRule> tileRules() const override { return kTileRules; }
  std::span<const ScheduleRule>
  scheduleRules(const MatmulProblem &) const override {
    return kRules;
  }
  std::string possibleTileRows(const MatmulProblem &) const override {
    return fmt::format("multiples of 16 up to {}", kMostTokens);
  }
  std::optional<std::string>
  whyGroupsApart(const MatmulProblem &problem) const override {
    // A tile has whole groups of a block-scaled result.
    if (problem.blockBytes > 0) {
      const int64_t columns = problem.gated ? kRows / 2 : kRows;
      if (problem.groupColumns > 0 && columns % problem.groupColumns == 0)
        return std::nullopt;
      return fmt::format("{} columns share a scale; a tile of engine '{}' has "
                         "{} columns",
                         problem.groupColumns, row.name, columns);
    }
    if (!problem.groupScales)
      return fmt::format("engine '{}' quantizes groups where sums are promoted",
                         row.name);
    return WarpSpecialized::whyGroupsApart(problem);
  }

  /// Returns the number of tensor memory columns. Promotion reads the
  /// accumulators of one pipeline stage while the next one is multiplied, which
  /// needs two sets of columns. Block scales need columns for each pipeline
  /// stage.
  int64_t tensorColumns(const MatmulProblem &problem,
                        const Schedule &s) const override {
    const int64_t columns =
        s.tileN / kRows * s.tileM * (isPromoted(problem) ? 2 : 1) +
        s.stages * scaleAtoms(problem, s) * kAtomColumns;
    return int64_t(std::bit_ceil(uint64_t(std::max(columns, kFewestColumns))));
  }

  int64_t sharedBytes(const MatmulProblem &problem,
                      const Schedule &s) const override {
    // mbarriers per warpgroup: one that signals the end of a tile's MMAs or,
    // with promotion, one per pipeline stage. One more word holds the tensor
    // memory address of the accumulators.
    const int64_t ends = s.tileN / kRows * (isPromoted(problem) ? s.stages : 1);
    // Scale blocks replace the scales of groups in a pipeline stage.
    MatmulProblem unscaled = problem;
    unscaled.groupScales &= !problem.powerGroups;
    return WarpSpecialized::sharedBytes(unscaled, s) +
           s.stages * scaleAtoms(problem, s) * kAtomBytes + (ends + 1) * 8;
  }

  /// Returns the MMA type. If scales change along K, the accumulators of each
  /// pipeline stage are promoted to registers. Otherwise accumulators stay in
  /// tensor memory for the whole K. PTX specifies f32 accumulators, but the
  /// precision that the hardware keeps for e4m3 operands is not documented.
  std::string mma(const MatmulProblem &problem, const Schedule &,
                  std::string_view type, bool) const override {
    if (bytesOfScale(problem) > 0)
      return fmt::format("{}Scaled<{}>", row.policy, type);
    return fmt::format("{}<{}, {}, {}>", row.policy, type,
                       problem.elementBytes == 1 && !isPromoted(problem),
                       kRows / 64);
  }

protected:
  void setWarps(Schedule &s, const ScheduleChoice &choice,
                const MatmulProblem &problem,
                const Hardware &hardware) const override {
    WarpSpecialized::setWarps(s, choice, problem, hardware);
    // With few tokens, the accumulators leave registers for the producers. The
    // producers then keep the addresses of all their rows; with fewer registers
    // they would spill. Producers that copy block scales need the additional
    // registers for every tile size.
    constexpr int64_t kFewTokens = 64;
    const bool copiesScales = bytesOfScale(problem) > 0;
    const int64_t ofProducers = copiesScales ? 64 : 56;
    WarpRoles &roles = s.roles();
    if ((s.tileM > kFewTokens && !copiesScales) ||
        roles.producerRegisters >= ofProducers)
      return;
    roles.consumerRegisters -= (ofProducers - roles.producerRegisters) *
                               roles.producerWarps / roles.consumerWarps;
    roles.producerRegisters = ofProducers;
  }

private:
  bool isPromoted(const MatmulProblem &problem) const override {
    return problem.groupScales && !problem.powerGroups;
  }

  /// Assumed to equal the efficiency of engine wgmma; not measured.
  double efficiency(const MatmulProblem &problem) const override {
    return problem.elementBytes == 1 ? 0.69 : 0.74;
  }

  std::optional<std::string> whyNoTile(const MatmulProblem &problem,
                                       const Schedule &s) const override {
    if (!s.roles().swap)
      return "weight rows are the rows of an instruction";
    if (s.tileM % 16 || s.tileM > kMostTokens)
      return fmt::format("tile m {} is no multiple of 16 up to {}", s.tileM,
                         kMostTokens);
    if (s.tileN != kRows && s.tileN != 2 * kRows)
      return fmt::format("tile n {}; {} and {} are possible", s.tileN, kRows,
                         2 * kRows);
    if (bytesOfScale(problem) > 0 && s.tileN != kRows)
      return fmt::format("tile n {}; with scales of blocks {} is possible",
                         s.tileN, kRows);
    if (problem.quantizesGroups() && whyGroupsApart(problem))
      return whyGroupsApart(problem);
    if (rowsOfWarpgroup(s) != kRows)
      return fmt::format("{} weight rows per warpgroup; engine '{}' takes {}",
                         rowsOfWarpgroup(s), row.name, kRows);
    const int64_t columns = tensorColumns(problem, s);
    if (columns * s.ctasPerSm > kColumnsOfSm)
      return fmt::format(
          "{} columns of tensor memory for each of {} CTAs; an SM has {}",
          columns, s.ctasPerSm, kColumnsOfSm);
    return std::nullopt;
  }

  Sums sums(const MatmulProblem &problem, const Schedule &s) const override {
    // Registers for the promoted totals, and for the accumulators of 64 rows.
    if (isPromoted(problem))
      return {s.tileM + s.tileM / 2, 40, "sums and totals"};
    return {s.tileM, 40, "sums"};
  }
};
} // namespace

const Engine &engines::tcgen05() {
  static const Tcgen05 engine;
  return engine;
}
