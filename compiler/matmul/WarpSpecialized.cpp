//===- WarpSpecialized.cpp - engines whose warps have roles ---------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The sizes must match templates/moe/kernel/grouped_matmul.cuh. Emitted code
// asserts this.
//
//===----------------------------------------------------------------------===//

#include "compiler/matmul/WarpSpecialized.h"

#include <fmt/core.h>

#include <algorithm>

using namespace moec;
using namespace moec::compiler;

/// Maximum tile rows for which the epilogue quantizes by groups. Measured: up
/// to 64 tile rows this saves 1 to 3 % of a layer's time; with 128 tile rows
/// the layer is 2 to 13 % slower.
static constexpr int64_t kGroupedTileRows = 64;
/// Bytes of each lhs row and weight row in a pipeline stage.
static constexpr int64_t kRowBytes = 128;
/// Fixed time of a kernel in seconds: the tail of routing, the first tile's
/// loads and the last tile's stores.
static constexpr double kKernelSeconds = 4.7e-6;

/// Returns the number of registers that a CTA has at launch and distributes
/// among its warp roles. An SM has 64 Ki registers, allocated to threads in
/// multiples of 8.
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
  // A producer thread keeps the addresses of the tile rows that it copies, and
  // spills if it has too few registers. Tiles of 256 rows need 56, tiles of 64
  // rows with scales 48, and tiles of 16 rows 40. Schedules with larger tiles
  // have fewer CTAs per SM, so the number of CTAs determines the value. With
  // 128 rows per warpgroup, consumers need nearly all registers for
  // accumulators. Producers then get 40, for any number of CTAs, and exchange
  // addresses between lanes.
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
  // Per-row scales pass through the shared memory in which a group of the
  // result is staged.
  if (problem.rowScales)
    return fmt::format("engine '{}' has no room for per-row scales in addition "
                       "to groups in tiles of up to {} rows",
                       row.name, kGroupedTileRows);
  return std::nullopt;
}

void WarpSpecialized::setWarps(Schedule &s, const ScheduleChoice &choice,
                               const MatmulProblem &problem,
                               const Hardware &) const {
  s.tileK = kRowBytes / problem.elementBytes;
  // The number of CTAs per SM determines the registers that the roles
  // distribute.
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
  // `whole`: warpgroups have 128 rows, and may. If several warpgroups promote
  // accumulators in registers, they alternate, and each must have 64 rows. This
  // does not apply to weights in fragment order.
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
    return fmt::format("tile m {} with 128 weight rows per warpgroup; up to {} "
                       "are possible",
                       s.tileM, mostTokens(problem));
  if (whole && problem.quantizesGroups() && inRegisters)
    return "128 weight rows per warpgroup leave no registers for a result that "
           "is quantized by groups";
  int64_t made = s.tileN / (problem.gated ? 2 : 1);
  if (problem.quantizesGroups() && problem.groupColumns != kScaledColumns)
    if (auto reason = whyGroupsApart(problem))
      return reason;
  if (problem.quantizesGroups() && roles.swap && problem.rowScales)
    return "per-row scales and a group of the result need the same shared "
           "memory";
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
  // If the roles request more registers than the CTA has, setmaxnreg never
  // returns.
  if (registers > registersOfCta(s))
    return fmt::format("{} registers in all; a CTA has {}", registers,
                       registersOfCta(s));
  const Sums taken = sums(problem, s);
  if (taken.registers + taken.others > roles.consumerRegisters)
    return fmt::format("{} {} per thread; {} registers hold {}",
                       taken.registers, taken.words, roles.consumerRegisters,
                       roles.consumerRegisters - taken.others);
  return std::nullopt;
}

bool WarpSpecialized::maySplit(const MatmulProblem &problem,
                               const Schedule &schedule,
                               const Hardware &hardware) const {
  constexpr int64_t kMostRows = 32, kFewestSteps = 8;
  // Only a first matmul (`gather`) is split. A second matmul has enough column
  // tiles to fill the GPU, and its K is short.
  if (!schedule.roles().swap || !problem.gather || schedule.ctasPerSm != 1 ||
      schedule.tileM > kMostRows || rowsOfWarpgroup(schedule) != 64 ||
      takenWeightRows(problem, schedule.tileN) != schedule.tileN ||
      problem.k < kFewestSteps * schedule.tileK)
    return false;
  // The minimum number of experts with rows: all tokens choose the same
  // experts. A rank that has only some of the experts may have only one expert
  // with rows.
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
  // Adds a schedule with as many pipeline stages as fit, and a schedule with
  // two thirds as many.
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

/// Returns the dynamic shared memory in bytes. It consists of the pipeline
/// stages, the staging tiles, two tile slots, the scales of each pipeline
/// stage, and the mbarriers. There is one staging tile per consumer warpgroup
/// or, if tokens are the MMA's rows, one staging tile of 8 tokens per warp.
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
  // The staging memory for quantized groups: 8 tokens per warp if tokens are
  // the MMA's rows, otherwise one f32 group for all warpgroups together. Groups
  // of block scales are quantized from the staging memory of f32 results.
  if (problem.quantizesGroups() && problem.blockBytes == 0)
    staging = roles.swap ? schedule.tileM * kScaledColumns * 4
                         : roles.consumerWarps * 8 * (kScaledColumns + 16);
  // Token scales of one pipeline stage. If tokens are the MMA's rows and each
  // has one scale, the scales are loaded with the tile's first k step, which
  // may use any of the pipeline stages.
  int64_t scales = problem.groupScales || !roles.swap ? schedule.tileM * 4 : 0;
  // Weight scales of one pipeline stage (StageScales in
  // templates/moe/matmul/feed/scales.cuh). Those of codes are part of a stage's
  // weights.
  constexpr int64_t kWeightScales = 16;
  if (problem.groupScales && problem.codeBits == 0)
    scales += kWeightScales;
  return ring + staging + 2 * kSlot + schedule.stages * scales +
         (2 * schedule.stages + 4) * kBarrier;
}

/// Returns the fraction of the dense rate that the shared memory bandwidth
/// permits. Shared memory reads or writes 128 bytes per clock. An MMA of 64
/// rows by n columns takes n / 2 clocks and reads 32 bytes for each of its rows
/// and columns from shared memory. Loading a pipeline stage writes it to shared
/// memory.
static double capOfSharedMemory(double instructionRows,
                                double instructionColumns, double filledRows,
                                double tileRows, double tileColumns) {
  constexpr double kBytes = 128, kMultiplyAdds = 4096;
  const double read =
      64 * (instructionRows + instructionColumns) / instructionColumns;
  const double filled = kMultiplyAdds * filledRows / (tileRows * tileColumns);
  return std::min(1.0, kBytes / (read + filled));
}

/// Estimates the time. Producers run ahead across tile boundaries, so the fill
/// time occurs only once per kernel. In the last wave of tiles, half of the
/// CTAs are idle on average.
EngineCost WarpSpecialized::cost(const MatmulProblem &problem,
                                 const Schedule &s, const Hardware &hardware,
                                 const MatmulWork &work) const {
  const double rows = work.rowTiles.rows / work.rowTiles.count;
  const double tileN = double(s.tileN);
  const double columns =
      s.roles().swap ? rows
                     : std::min(tileN, isPromoted(problem) ? 128.0 : 256.0);
  // `codes`: bytes of a weight code (quantized value) relative to the operand
  // that it is converted to.
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
