//===- WarpSpecialized.cpp - engines whose warps have roles ---------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sizes mirror templates/moe/kernel/grouped_matmul.cuh; emitted code asserts
// them.
//
//===----------------------------------------------------------------------===//

#include "compiler/matmul/WarpSpecialized.h"

#include <fmt/core.h>

#include <algorithm>

using namespace moec;
using namespace moec::compiler;

/// Groups of the result are quantized in tiles of so many rows at most: 1 to
/// 3 % of a layer's time, and with 128 rows 2 to 13 % are lost to half as many
/// tiles, each twice as long.
static constexpr int64_t kGroupedTileRows = 64;
/// Bytes of k that a stage has of each row.
static constexpr int64_t kRowBytes = 128;
/// Routing's tail, the first tile's way in and the last one's way out.
static constexpr double kKernelSeconds = 4.7e-6;

/// Registers that a CTA begins with, and that its roles may share: an SM has 64
/// Ki, and a thread gets them in eights.
static int64_t registersOfCta(const Schedule &s) {
  const int64_t all = std::max<int64_t>(s.threads() * s.ctasPerSm, 1);
  return s.threads() * std::min<int64_t>((64 << 10) / all / 8 * 8, 248);
}

int64_t compiler::rowsOfWarpgroup(const Schedule &s) {
  if (!s.hasRoles() || s.roles().consumerWarps <= 0)
    return 0;
  return (s.roles().swap ? s.tileN : s.tileM) * 4 / s.roles().consumerWarps;
}

void compiler::setRoles(Schedule &s, int64_t rowsOfWarpgroup, bool swap) {
  WarpRoles roles;
  roles.swap = swap;
  roles.producerWarps = 4;
  roles.consumerWarps = (swap ? s.tileN : s.tileM) * 4 / rowsOfWarpgroup;
  // With a CTA alone on its SM there is room for the producers' addresses of
  // 256 rows; they spill with fewer, and those of 64 rows and their scales do
  // with fewer than 48. Sums of 128 rows take what there is: producers
  // then hand each other the addresses. Those of 16 rows do with 40.
  roles.producerRegisters = rowsOfWarpgroup == 128 ? 40
                            : s.ctasPerSm == 1     ? 56
                            : s.ctasPerSm == 2     ? 48
                                                   : 40;
  s.warps = roles;
  const int64_t rest =
      registersOfCta(s) - 32 * roles.producerWarps * roles.producerRegisters;
  s.roles().consumerRegisters = std::min<int64_t>(
      rest / std::max<int64_t>(32 * roles.consumerWarps, 1) / 8 * 8, 240);
}

std::optional<std::string>
WarpSpecialized::whyGroupsApart(const MatmulProblem &problem) const {
  if (problem.groupColumns != kScaledColumns)
    return fmt::format("engine '{}' quantizes groups of {} columns, not {}",
                       row.name, kScaledColumns, problem.groupColumns);
  if (problem.tileRows < 1 || problem.tileRows > kGroupedTileRows)
    return fmt::format("engine '{}' quantizes groups in tiles of up to {} rows",
                       row.name, kGroupedTileRows);
  // Scales of rows are handed over where the group lies.
  if (problem.rowScales)
    return fmt::format("engine '{}' has no room for scales of rows beside "
                       "groups in tiles of up to {} rows",
                       row.name, kGroupedTileRows);
  return std::nullopt;
}

void WarpSpecialized::setWarps(Schedule &s, const ScheduleChoice &choice,
                               const MatmulProblem &problem,
                               const Hardware &) const {
  s.tileK = kRowBytes / problem.elementBytes;
  // Roles share the registers that the number of CTAs leaves.
  s.ctasPerSm = choice.ctasPerSm;
  setRoles(s, choice.warpgroupRows, choice.swap);
}

std::optional<std::string>
WarpSpecialized::whyIllegal(const MatmulProblem &problem,
                            const Schedule &s) const {
  if (!s.hasRoles())
    return fmt::format("engine '{}' needs warps with roles", row.name);
  const WarpRoles &roles = s.roles();
  if (auto reason = whyNoTile(problem, s))
    return reason;
  if (roles.consumerWarps < 4 || roles.consumerWarps % 4)
    return fmt::format("{} consuming warps; whole warpgroups of 4 are possible",
                       roles.consumerWarps);
  // Warpgroups that promote sums in registers take turns, each with 64 rows.
  const bool inRegisters = tensorColumns(problem, s) == 0;
  bool whole = rowsOfWarpgroup(s) == 128 &&
               (roles.consumerWarps == 4 || problem.inFragments ||
                !isPromoted(problem) || !inRegisters);
  int64_t rows = roles.swap ? s.tileN : s.tileM;
  if (roles.producerWarps != 4 || (roles.consumerWarps * 16 != rows && !whole))
    return fmt::format("{} producing and {} consuming warps; tile {} {} takes "
                       "4 and {}",
                       roles.producerWarps, roles.consumerWarps,
                       roles.swap ? "n" : "m", rows, rows / 16);
  if (whole && s.tileM > mostTokens(problem))
    return fmt::format("tile m {} of 128 weight rows a warpgroup; up to {} "
                       "are possible",
                       s.tileM, mostTokens(problem));
  if (whole && problem.quantizesGroups() && inRegisters)
    return "128 weight rows a warpgroup leave no registers for a result that "
           "is quantized by groups";
  int64_t made = s.tileN / (problem.gated ? 2 : 1);
  if (problem.quantizesGroups() && problem.groupColumns != kScaledColumns)
    return whyGroupsApart(problem);
  if (problem.quantizesGroups() && roles.swap && problem.rowScales)
    return "scales of rows lie where a group of the result does";
  if (problem.quantizesGroups() && !roles.swap && made % kScaledColumns != 0)
    return fmt::format("tile n {} makes {} columns; {} share a scale, and "
                       "tokens as rows take whole groups",
                       s.tileN, made, kScaledColumns);
  if (problem.quantizesGroups() && roles.swap && made > kScaledColumns)
    return fmt::format("tile n {} makes {} columns; {} share a scale", s.tileN,
                       made, kScaledColumns);
  if (s.tileK * problem.elementBytes != kRowBytes)
    return fmt::format("tile k {} is not {} bytes of a row", s.tileK,
                       kRowBytes);
  if (s.stages < 2 || s.stages > 10)
    return fmt::format("{} stages; 2 to 10 are possible", s.stages);
  for (int64_t registers : {roles.producerRegisters, roles.consumerRegisters})
    if (registers < 24 || registers > 240 || registers % 8)
      return fmt::format("{} registers; multiples of 8 from 24 to 240 are "
                         "possible",
                         registers);
  int64_t registers = 32 * (roles.producerWarps * roles.producerRegisters +
                            roles.consumerWarps * roles.consumerRegisters);
  // If they ask for more, the warps wait for registers and never get them.
  if (registers > registersOfCta(s))
    return fmt::format("{} registers in all; a CTA has {}", registers,
                       registersOfCta(s));
  const Sums taken = sums(problem, s);
  if (taken.registers + taken.others > roles.consumerRegisters)
    return fmt::format("{} {} a thread; {} registers hold {}", taken.registers,
                       taken.words, roles.consumerRegisters,
                       roles.consumerRegisters - taken.others);
  return std::nullopt;
}

bool WarpSpecialized::maySplit(const MatmulProblem &problem,
                               const Schedule &schedule,
                               const Hardware &hardware) const {
  constexpr int64_t kMostRows = 32, kFewestSteps = 8;
  // The column tiles of the second matmul fill a GPU, and its k is short.
  if (!schedule.roles().swap || !problem.gather || schedule.ctasPerSm != 1 ||
      schedule.tileM > kMostRows || rowsOfWarpgroup(schedule) != 64 ||
      takenWeightRows(problem, schedule.tileN) != schedule.tileN ||
      problem.k < kFewestSteps * schedule.tileK)
    return false;
  // All tokens take so many experts: of a rank with some of the experts, one.
  int64_t experts = problem.localExperts < problem.experts ? 1 : problem.pairs;
  int64_t columnTiles = (problem.n + schedule.tileN - 1) / schedule.tileN;
  return experts * columnTiles <= mostTilesToSplit(hardware);
}

int64_t WarpSpecialized::registers(const MatmulProblem &,
                                   const Schedule &schedule) const {
  return registersOfCta(schedule) / schedule.threads();
}

std::vector<Schedule>
WarpSpecialized::candidates(const MatmulProblem &problem,
                            const Hardware &hardware) const {
  std::vector<Schedule> result;
  // The ring is as deep as fits, or a third less deep.
  const auto addDeepest = [&](Schedule s) {
    for (s.stages = 10; s.stages >= 2; --s.stages)
      if (!compiler::whyIllegal(problem, s, hardware))
        break;
    for (int64_t stages : {s.stages, s.stages * 2 / 3}) {
      s.stages = stages;
      if (!compiler::whyIllegal(problem, s, hardware))
        result.push_back(s);
    }
  };
  Schedule s;
  s.engine = &row;
  s.source = "modelled";
  s.tileM = problem.tileRows, s.tileK = kRowBytes / problem.elementBytes;
  for (int64_t tileN : {128, 64, 256})
    for (int64_t warpgroupRows : {64, 128})
      for (bool swap : {true, false})
        for (int64_t ctas : {1, 2, 3})
          for (int64_t group : {1, 4}) {
            s.tileN = tileN, s.groupM = group, s.ctasPerSm = ctas;
            const int64_t rows = swap ? s.tileN : s.tileM;
            if (rows % warpgroupRows)
              continue;
            setRoles(s, warpgroupRows, swap);
            addDeepest(s);
          }
  return result;
}

int64_t WarpSpecialized::weightBytes(const MatmulProblem &problem,
                                     const Schedule &schedule) const {
  return schedule.tileN * schedule.tileK * problem.elementBytes;
}

/// Shared memory holds the ring of stages, a staging tile for each consuming
/// warpgroup (or one of 8 tokens for each warp, if rows are tokens), two slots
/// for tiles, the scales of each stage, and the mbarriers.
int64_t WarpSpecialized::sharedBytes(const MatmulProblem &problem,
                                     const Schedule &schedule) const {
  constexpr int64_t kSlot = 16, kBarrier = 8;
  const WarpRoles &roles = schedule.roles();
  int64_t rows = rowsOfWarpgroup(schedule);
  int64_t ring = schedule.stages *
                 (schedule.tileM * schedule.tileK * problem.elementBytes +
                  weightBytes(problem, schedule));
  int64_t columns = problem.gated ? rows / 2 : rows;
  int64_t tokens = std::min<int64_t>(
      schedule.tileM, problem.resultBytes == 4 || columns > 64 ? 32 : 64);
  int64_t staging = tokens * (columns * problem.resultBytes + 16);
  staging *= schedule.tileN / rows;
  if (!roles.swap)
    staging =
        roles.consumerWarps * 8 *
        (std::min<int64_t>(schedule.tileN, 128) / (problem.gated ? 2 : 1) + 8) *
        problem.resultBytes;
  // Codes of a group of 8 tokens for each warp, or one of f32 for all
  // warpgroups.
  if (problem.quantizesGroups())
    staging = roles.swap ? schedule.tileM * kScaledColumns * 4
                         : roles.consumerWarps * 8 * (kScaledColumns + 16);
  // Scales of a stage's tokens. Those of whole tokens, where tokens are rows,
  // come with a tile's first stage, which is any of the ring.
  int64_t scales = problem.groupScales || !roles.swap ? schedule.tileM * 4 : 0;
  // And those of its weights: templates/moe/matmul/feed/scales.cuh,
  // StageScales.
  constexpr int64_t kWeightScales = 16;
  if (problem.groupScales)
    scales += kWeightScales;
  return ring + staging + 2 * kSlot + schedule.stages * scales +
         (2 * schedule.stages + 4) * kBarrier;
}

/// The part of the dense rate that shared memory lets through. It delivers and
/// takes 128 bytes a clock. In the clocks of an instruction of 64 rows by n
/// columns, which are n / 2, it is read 32 bytes for each row and column; a
/// stage of a tile fills it.
static double capOfSharedMemory(double instructionRows,
                                double instructionColumns, double filledRows,
                                double tileRows, double tileColumns) {
  constexpr double kBytes = 128, kMultiplyAdds = 4096;
  const double read =
      64 * (instructionRows + instructionColumns) / instructionColumns;
  const double filled = kMultiplyAdds * filledRows / (tileRows * tileColumns);
  return std::min(1.0, kBytes / (read + filled));
}

/// Producers run ahead over the ends of tiles, so these cost nothing but at a
/// kernel's ends. The last round of tiles leaves half of the CTAs idle.
EngineCost WarpSpecialized::cost(const MatmulProblem &problem,
                                 const Schedule &s, const Hardware &hardware,
                                 const MatmulWork &work) const {
  const double rows = work.rowTiles.rows / work.rowTiles.count;
  const double tileN = double(s.tileN);
  const double columns =
      s.roles().swap ? rows
                     : std::min(tileN, isPromoted(problem) ? 128.0 : 256.0);
  // Codes are smaller than what they become.
  const double codes =
      problem.codeBits > 0
          ? double(problem.codeBits) / double(8 * problem.elementBytes)
          : 1.0;
  const double cap = capOfSharedMemory(conversion() ? 0 : 64, columns,
                                       rows + tileN * codes, rows, tileN);
  const double perCta = work.tilesOfSm / double(s.ctasPerSm);
  const double rounds = perCta < 1 ? 1 : perCta + 0.5;
  const double flops = 2 * work.rowTiles.rows * double(problem.n) *
                       double(problem.k) * rounds / perCta;
  return {flops / (hardware.tensorFlopsOf(problem.elementBytes) *
                   efficiency(problem) * cap),
          conversionSeconds(problem, work.weights,
                            conversion().value_or(ConversionClocks()),
                            hardware),
          kKernelSeconds};
}

std::string WarpSpecialized::mma(const MatmulProblem &problem,
                                 const Schedule &schedule,
                                 std::string_view type, bool) const {
  const bool fast = row.addsFast && problem.addsFast;
  const int64_t atoms = rowsOfWarpgroup(schedule) / 64;
  std::string choices = fast ? ", true" : "";
  if (!schedule.roles().swap) // tokens are rows
    choices = fmt::format(", {}, {}, {}", fast, atoms, schedule.tileN);
  else if (atoms > 1)
    choices = fmt::format(", {}, {}", fast, atoms);
  return fmt::format("{}<{}{}>", row.policy, type, choices);
}
