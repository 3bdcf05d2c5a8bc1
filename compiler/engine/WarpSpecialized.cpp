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

#include "compiler/engine/WarpSpecialized.h"

#include "runtime/support/JsonReader.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>

using namespace moec;
using namespace moec::compiler;

/// Groups of the result are quantized in tiles of so many rows at most: 1 to
/// 3 % of a layer's time, and with 128 rows 2 to 13 % are lost to half as many
/// tiles, each twice as long.
static constexpr int64_t kGroupedTileRows = 64;
/// Routing's tail, the first tile's way in and the last one's way out.
static constexpr double kKernelSeconds = 4.7e-6;

void Schedule::setRoles(int64_t rowsOfWarpgroup) {
  warpsM = warpsN = 0;
  producerWarps = 4;
  consumerWarps = (swap ? tileN : tileM) * 4 / rowsOfWarpgroup;
  // With a CTA alone on its SM there is room for the producers' addresses of
  // 256 rows; they spill with fewer, and those of 64 rows and their scales do
  // with fewer than 48. Sums of 128 rows take what there is: producers
  // then hand each other the addresses. Those of 16 rows do with 40.
  producerRegisters = rowsOfWarpgroup == 128 ? 40
                      : ctasPerSm == 1       ? 56
                      : ctasPerSm == 2       ? 48
                                             : 40;
  int64_t rest = registersOfCta() - 32 * producerWarps * producerRegisters;
  consumerRegisters = std::min<int64_t>(
      rest / std::max<int64_t>(32 * consumerWarps, 1) / 8 * 8, 240);
}

int64_t Schedule::registersOfCta() const {
  int64_t all = std::max<int64_t>(threads() * ctasPerSm, 1);
  return threads() * std::min<int64_t>((64 << 10) / all / 8 * 8, 248);
}

std::optional<std::string>
WarpSpecialized::whyGroupsApart(const GroupedResult &result) const {
  if (result.columns != kScaledColumns)
    return fmt::format("engine '{}' quantizes groups of {} columns, not {}",
                       row.name, kScaledColumns, result.columns);
  if (result.tileRows < 1 || result.tileRows > kGroupedTileRows)
    return fmt::format("engine '{}' quantizes groups in tiles of up to {} rows",
                       row.name, kGroupedTileRows);
  // Scales of rows are handed over where the group lies.
  if (result.rowScales)
    return fmt::format("engine '{}' has no room for scales of rows beside "
                       "groups in tiles of up to {} rows",
                       row.name, kGroupedTileRows);
  return std::nullopt;
}

std::optional<std::string>
WarpSpecialized::whyIllegal(const MatmulProblem &problem,
                            const Schedule &s) const {
  constexpr int64_t kRowBytes = 128;
  if (!s.hasRoles())
    return fmt::format("engine '{}' needs warps with roles", s.engine);
  if (auto reason = whyNoTile(problem, s))
    return reason;
  if (s.consumerWarps < 4 || s.consumerWarps % 4)
    return fmt::format("{} consuming warps; whole warpgroups of 4 are possible",
                       s.consumerWarps);
  // Sums that are promoted take turns with those of 64 rows.
  bool whole = s.rowsOfWarpgroup() == 128 &&
               (s.consumerWarps == 4 || problem.inFragments ||
                !problem.isPromoted(row.addsFast));
  int64_t rows = s.swap ? s.tileN : s.tileM;
  if (s.producerWarps != 4 || (s.consumerWarps * 16 != rows && !whole))
    return fmt::format("{} producing and {} consuming warps; tile {} {} takes "
                       "4 and {}",
                       s.producerWarps, s.consumerWarps, s.swap ? "n" : "m",
                       rows, rows / 16);
  if (whole && s.tileM > mostTokens(problem))
    return fmt::format("tile m {} of 128 weight rows a warpgroup; up to {} "
                       "are possible",
                       s.tileM, mostTokens(problem));
  if (whole && problem.quantizesGroups())
    return "128 weight rows a warpgroup leave no registers for a result that "
           "is quantized by groups";
  int64_t made = s.tileN / (problem.gated ? 2 : 1);
  if (problem.quantizesGroups() && problem.groupColumns != kScaledColumns)
    return whyGroupsApart({s.tileM, problem.groupColumns, problem.gated});
  if (problem.quantizesGroups() && s.swap && problem.rowScales)
    return "scales of rows lie where a group of the result does";
  if (problem.quantizesGroups() && !s.swap && made % kScaledColumns != 0)
    return fmt::format("tile n {} makes {} columns; {} share a scale, and "
                       "tokens as rows take whole groups",
                       s.tileN, made, kScaledColumns);
  if (problem.quantizesGroups() && s.swap && made > kScaledColumns)
    return fmt::format("tile n {} makes {} columns; {} share a scale", s.tileN,
                       made, kScaledColumns);
  if (s.tileK * problem.elementBytes != kRowBytes)
    return fmt::format("tile k {} is not {} bytes of a row", s.tileK,
                       kRowBytes);
  if (s.stages < 2 || s.stages > 10)
    return fmt::format("{} stages; 2 to 10 are possible", s.stages);
  for (int64_t registers : {s.producerRegisters, s.consumerRegisters})
    if (registers < 24 || registers > 240 || registers % 8)
      return fmt::format("{} registers; multiples of 8 from 24 to 240 are "
                         "possible",
                         registers);
  int64_t registers = 32 * (s.producerWarps * s.producerRegisters +
                            s.consumerWarps * s.consumerRegisters);
  // More and the warps that ask for them wait for ever.
  if (registers > s.registersOfCta())
    return fmt::format("{} registers in all; a CTA has {}", registers,
                       s.registersOfCta());
  const Sums taken = sums(problem, s);
  if (taken.registers + taken.others > s.consumerRegisters)
    return fmt::format("{} {} a thread; {} registers hold {}", taken.registers,
                       taken.words, s.consumerRegisters,
                       s.consumerRegisters - taken.others);
  return std::nullopt;
}

bool WarpSpecialized::maySplit(const MatmulProblem &problem,
                               const Schedule &schedule,
                               const Hardware &hardware) const {
  constexpr int64_t kMostRows = 32, kFewestSteps = 8;
  // The column tiles of the second matmul fill a GPU, and its k is short.
  if (!schedule.swap || !problem.gather || schedule.ctasPerSm != 1 ||
      schedule.tileM > kMostRows || schedule.rowsOfWarpgroup() != 64 ||
      takenWeightRows(problem, schedule.tileN) != schedule.tileN ||
      problem.k < kFewestSteps * schedule.tileK)
    return false;
  // All tokens take so many experts: of a rank with some of the experts, one.
  int64_t experts = problem.localExperts < problem.experts ? 1 : problem.pairs;
  int64_t columnTiles = (problem.n + schedule.tileN - 1) / schedule.tileN;
  return experts * columnTiles <= mostTilesToSplit(hardware);
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
  s.engine = row.name;
  s.source = "modelled";
  s.tileM = problem.tileRows, s.tileK = 128 / problem.elementBytes;
  for (int64_t tileN : {128, 64, 256})
    for (int64_t warpgroupRows : {64, 128})
      for (bool swap : {true, false})
        for (int64_t ctas : {1, 2, 3})
          for (int64_t group : {1, 4}) {
            s.tileN = tileN, s.groupM = group, s.ctasPerSm = ctas;
            s.swap = swap;
            const int64_t rows = swap ? s.tileN : s.tileM;
            if (rows % warpgroupRows)
              continue;
            s.setRoles(warpgroupRows);
            addDeepest(s);
          }
  return result;
}

int64_t WarpSpecialized::weightBytes(const MatmulProblem &problem,
                                     const Schedule &schedule) const {
  return schedule.tileN * schedule.tileK * problem.elementBytes;
}

/// Behind the ring there are a staging tile for each consuming warpgroup, or
/// one of 8 tokens for each warp whose rows are tokens, two slots for tiles,
/// the scales of the tokens and weights of each stage, and the barriers.
int64_t WarpSpecialized::sharedBytes(const MatmulProblem &problem,
                                     const Schedule &schedule) const {
  constexpr int64_t kSlot = 16, kBarrier = 8;
  int64_t rows = schedule.rowsOfWarpgroup();
  int64_t ring = schedule.stages *
                 (schedule.tileM * schedule.tileK * problem.elementBytes +
                  weightBytes(problem, schedule));
  int64_t columns = problem.gated ? rows / 2 : rows;
  int64_t tokens = std::min<int64_t>(
      schedule.tileM, problem.resultBytes == 4 || columns > 64 ? 32 : 64);
  int64_t staging = tokens * (columns * problem.resultBytes + 16);
  staging *= schedule.tileN / rows;
  if (!schedule.swap)
    staging =
        schedule.consumerWarps * 8 *
        (std::min<int64_t>(schedule.tileN, 128) / (problem.gated ? 2 : 1) + 8) *
        problem.resultBytes;
  // Codes of a group of 8 tokens for each warp, or one of f32 for all
  // warpgroups.
  if (problem.quantizesGroups())
    staging = schedule.swap
                  ? schedule.tileM * kScaledColumns * 4
                  : schedule.consumerWarps * 8 * (kScaledColumns + 16);
  // Scales of a stage's tokens. Those of whole tokens, where tokens are rows,
  // come with a tile's first stage, which is any of the ring.
  int64_t scales =
      problem.groupScales || !schedule.swap ? schedule.tileM * 4 : 0;
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
      s.swap ? rows : std::min(tileN, isPromoted(problem) ? 128.0 : 256.0);
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

std::string WarpSpecialized::warps(const Schedule &schedule) const {
  return fmt::format("{}+{}{}", schedule.producerWarps, schedule.consumerWarps,
                     schedule.swap ? "" : " of tokens");
}

void WarpSpecialized::read(JsonReader &row, Schedule &schedule) const {
  schedule.warpsM = schedule.warpsN = 0;
  schedule.producerWarps = row.integer("producer_warps", 0, INT32_MAX);
  schedule.consumerWarps = row.integer("consumer_warps", 0, INT32_MAX);
  std::vector<int64_t> registers = row.integers("registers", 2, 0, INT32_MAX);
  schedule.producerRegisters = registers[0];
  schedule.consumerRegisters = registers[1];
  schedule.ctasPerSm = row.integer("ctas_per_sm", 0, INT32_MAX);
  schedule.swap = row.booleanOr("swap", true);
}

void WarpSpecialized::write(const Schedule &schedule,
                            nlohmann::ordered_json &row) const {
  row["producer_warps"] = schedule.producerWarps;
  row["consumer_warps"] = schedule.consumerWarps;
  row["registers"] = {schedule.producerRegisters, schedule.consumerRegisters};
  row["ctas_per_sm"] = schedule.ctasPerSm;
  if (!schedule.swap)
    row["swap"] = false;
}

void WarpSpecialized::addConfig(const MmaOperands &operands,
                                const Schedule &schedule,
                                ConfigPrinter &config) const {
  const bool fast = row.addsFast && operands.addsFast;
  const int64_t atoms = schedule.rowsOfWarpgroup() / 64;
  std::string choices = fast ? ", true" : "";
  if (!schedule.swap) // tokens are rows
    choices = fmt::format(", {}, {}, {}", fast, atoms, schedule.tileN);
  else if (atoms > 1)
    choices = fmt::format(", {}, {}", fast, atoms);
  config.type("Mma",
              fmt::format("{}<{}{}>", row.policy, operands.type, choices));
  openSchedule(schedule, config);
  config.number("kGroupM", schedule.groupM);
  config.number("kProducerWarps", schedule.producerWarps);
  config.number("kConsumerWarps", schedule.consumerWarps);
  config.number("kProducerRegisters", schedule.producerRegisters);
  config.number("kConsumerRegisters", schedule.consumerRegisters);
  config.number("kCtasPerSm", schedule.ctasPerSm);
  config.flag("kPersistent", true);
  config.close();
}
