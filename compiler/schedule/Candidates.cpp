//===- Candidates.cpp - legal schedules -----------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the templates can be instantiated with, and the grid of choices that
// the cost model ranks.
//
//===----------------------------------------------------------------------===//

#include "compiler/schedule/Candidates.h"

#include "compiler/schedule/SharedMemory.h"
#include "dialect/catalog/Engines.h"

#include <fmt/format.h>

#include <algorithm>

using namespace moec;
using namespace moec::compiler;

namespace {
/// Smallest pieces of a warp's tile that an engine's fragments are made of.
struct Granularity {
  int64_t m, n, k;
};

std::optional<Granularity> granularity(const MatmulProblem &problem,
                                       const std::string &engine) {
  // mma.m16n8k16 (k32 of 8 bits), weights loaded 16 rows at a time by
  // ldmatrix.x4.
  if (engine == "mma_sync")
    return Granularity{16, 16, 32 / problem.elementBytes};
  // Each k step is one 16-byte load.
  if (engine == "simt")
    return Granularity{4, 16, 16 / problem.elementBytes};
  return std::nullopt;
}
} // namespace

/// The row of an engine whose warps have roles, or null.
static const catalog::Engine *specializedEngine(const std::string &engine) {
  const catalog::Engine *row = catalog::find(catalog::kEngines, engine);
  return row && row->warpSpecialized ? row : nullptr;
}

/// Warps with roles quantize groups of the result in tiles of so many rows at
/// most: 1 to 3 % of a layer's time, and with 128 rows 2 to 13 % are lost to
/// half as many tiles, each twice as long.
static constexpr int64_t kGroupedTileRows = 64;
/// Weight rows that a group may have where warps have no roles: those of the
/// narrowest tile. For wider groups a launch of its own is faster
/// (docs/decisions/020).
static constexpr int64_t kMostRowsOfGroup = 64;

std::optional<std::string> compiler::whyGroupsApart(const std::string &engine,
                                                    int64_t tileRows,
                                                    int64_t columns,
                                                    bool gated) {
  if (specializedEngine(engine)) {
    if (columns != kScaledColumns)
      return fmt::format("engine '{}' quantizes groups of {} columns, not {}",
                         engine, kScaledColumns, columns);
    if (tileRows < 1 || tileRows > kGroupedTileRows)
      return fmt::format("engine '{}' quantizes groups in tiles of up to {} "
                         "rows",
                         engine, kGroupedTileRows);
    return std::nullopt;
  }
  const int64_t rows = columns * (gated ? 2 : 1);
  if (rows >= 1 && kMostRowsOfGroup % rows == 0)
    return std::nullopt;
  return fmt::format("{} columns that share a scale are {} weight rows; engine "
                     "'{}' quantizes a divisor of {}",
                     columns, rows, engine, kMostRowsOfGroup);
}

/// What templates/moe/skeleton/warp_specialized.cuh can be instantiated with.
static std::optional<std::string> whyIllegalRoles(const MatmulProblem &problem,
                                                  const Schedule &s,
                                                  const Hardware &hardware) {
  constexpr int64_t kRowBytes = 128;
  bool promoted = problem.isPromoted(specializedEngine(s.engine)->addsFast);
  if (s.tileM < 1 || s.tileN < 1 || s.groupM < 1 || s.ctasPerSm < 1)
    return "tile, group and CTAs must be positive";
  if (s.tileM != problem.tileRows)
    return fmt::format("tile m {} differs from the variant's tile rows {}",
                       s.tileM, problem.tileRows);
  // Totals beside the sums take registers, and so do scales of 256 tokens.
  int64_t mostRows = !s.swap                     ? 192
                     : promoted                  ? 128
                     : problem.elementBytes == 1 ? 192
                                                 : 256;
  if (s.tileM % 16 || s.tileM > mostRows)
    return fmt::format("tile m {} is no multiple of 16 up to {}", s.tileM,
                       mostRows);
  // The skeleton can be instantiated with up to 256; these ran on a GPU.
  if (s.tileN != 64 && s.tileN != 128 && s.tileN != 256)
    return fmt::format("tile n {}; 64, 128 and 256 are possible", s.tileN);
  bool whole = s.rowsOfWarpgroup() == 128 && s.consumerWarps == 4;
  int64_t rows = s.swap ? s.tileN : s.tileM;
  if (s.producerWarps != 4 || (s.consumerWarps * 16 != rows && !whole))
    return fmt::format("{} producing and {} consuming warps; tile {} {} takes "
                       "4 and {}",
                       s.producerWarps, s.consumerWarps, s.swap ? "n" : "m",
                       rows, rows / 16);
  if (whole && s.tileM > 128)
    return fmt::format(
        "tile m {} of 128 weight rows a warpgroup; up to 128 are "
        "possible",
        s.tileM);
  if (whole && problem.quantizesGroups())
    return std::string("128 weight rows a warpgroup leave no registers for "
                       "a result that is quantized by groups");
  if (!s.swap && (!problem.groupScales || problem.quantizesGroups()))
    return std::string("operands are swapped but for scales of groups along k "
                       "and a result that is not quantized");
  if (!s.swap && s.tileM % 64)
    return fmt::format("tokens are rows of an instruction by 64, not {}",
                       s.tileM);
  if (!s.swap && s.tileN != 128)
    return fmt::format("tile n {}; tokens as rows of an instruction take 128",
                       s.tileN);
  int64_t made = s.tileN / (problem.gated ? 2 : 1);
  if (problem.quantizesGroups() && problem.groupColumns != kScaledColumns)
    return whyGroupsApart(s.engine, s.tileM, problem.groupColumns,
                          problem.gated);
  if (problem.quantizesGroups() && made > kScaledColumns)
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
  // Sums, beside them totals and the tokens' scales, and 64 for addresses and
  // the epilogue; 24 suffice where a warpgroup has the sums of 128 rows, of
  // which it promotes those of 64 at a time, and where tokens are rows, which
  // takes no buffers.
  int64_t columns = s.swap ? s.tileM : s.tileN;
  int64_t sums = columns / 2 * (s.rowsOfWarpgroup() / 64);
  int64_t others = whole || !s.swap ? 24 : 64;
  if (promoted)
    sums += columns / 2;
  if (problem.groupScales && s.swap && !whole)
    sums += s.tileM / 4;
  if (sums + others > s.consumerRegisters)
    return fmt::format("{} {} a thread; {} registers hold {}", sums,
                       promoted ? "sums, totals and scales" : "accumulators",
                       s.consumerRegisters, s.consumerRegisters - others);
  int64_t shared = sharedBytes(problem, s);
  if (shared > hardware.sharedPerBlock)
    return fmt::format("{} bytes of shared memory; {} has {}", shared,
                       hardware.arch, hardware.sharedPerBlock);
  if (occupancy(problem, s, hardware) < s.ctasPerSm)
    return fmt::format("{} CTAs a multiprocessor; {} fit", s.ctasPerSm,
                       occupancy(problem, s, hardware));
  return std::nullopt;
}

std::optional<std::string> compiler::whyIllegal(const MatmulProblem &problem,
                                                const Schedule &s,
                                                const Hardware &hardware) {
  // Kernels multiply it by the column tiles in 32 bits.
  constexpr int64_t kMostOfGroup = 1024;
  if (s.groupM > kMostOfGroup)
    return fmt::format("a group of {} m tiles; up to {} are possible", s.groupM,
                       kMostOfGroup);
  bool specialized = specializedEngine(s.engine) != nullptr;
  if (specialized != s.hasRoles())
    return fmt::format("engine '{}' {} warps with roles", s.engine,
                       specialized ? "needs" : "has no");
  if (specialized && problem.codeBits > 0)
    return fmt::format("engine '{}' does not convert weights of {} bits",
                       s.engine, problem.codeBits);
  if (specialized)
    return whyIllegalRoles(problem, s, hardware);
  auto grain = granularity(problem, s.engine);
  if (!grain)
    return fmt::format("engine '{}' has no grouped matmul", s.engine);
  if (s.tileM < 1 || s.tileN < 1 || s.tileK < 1 || s.warpsM < 1 ||
      s.warpsN < 1 || s.groupM < 1 || s.stages < 1)
    return "tile, stages, warps and group must be positive";
  if (s.tileM != problem.tileRows)
    return fmt::format("tile m {} differs from the variant's tile rows {}",
                       s.tileM, problem.tileRows);
  if (s.tileM % (s.warpsM * grain->m) || s.tileN % (s.warpsN * grain->n))
    return fmt::format("a warp's tile of {}x{} over {}x{} warps is no multiple "
                       "of {}x{}",
                       s.tileM, s.tileN, s.warpsM, s.warpsN, grain->m,
                       grain->n);
  int64_t made = s.tileN / (problem.gated ? 2 : 1);
  if (problem.quantizesGroups() && made % problem.groupColumns)
    return fmt::format("tile n {} makes {} columns; {} share a scale", s.tileN,
                       made, problem.groupColumns);
  // Steps alternate between two sets of fragments.
  if (s.tileK % (2 * grain->k))
    return fmt::format("tile k {} is no multiple of {}", s.tileK, 2 * grain->k);
  int64_t rowBytes = s.tileK * problem.elementBytes;
  if (s.threads() * 16 % (8 * rowBytes))
    return fmt::format("{} threads cannot share rows of {} bytes evenly",
                       s.threads(), rowBytes);
  if (s.stages < 2 || s.stages > 8)
    return fmt::format("{} stages; 2 to 8 are possible", s.stages);
  if (s.threads() > 256)
    return fmt::format("{} threads; at most 256 are possible", s.threads());
  int64_t shared = sharedBytes(problem, s);
  if (shared > hardware.sharedPerBlock)
    return fmt::format("{} bytes of shared memory; {} has {}", shared,
                       hardware.arch, hardware.sharedPerBlock);
  // 128 accumulators leave room for fragments of a 64x64 warp tile.
  // Sums of 8-bit operands are promoted to totals: twice the registers.
  bool promoted = problem.isPromoted();
  // So do the scales of weights that are converted.
  int64_t most = promoted || problem.codeBits > 0 ? 64 : 128;
  if (s.tileM * s.tileN / s.threads() > most)
    return fmt::format("{} accumulators a thread; at most {} fit",
                       s.tileM * s.tileN / s.threads(), most);
  if (promoted && problem.promoteK % s.tileK)
    return fmt::format("tile k {} does not divide the {} after which sums are "
                       "promoted",
                       s.tileK, problem.promoteK);
  if (occupancy(problem, s, hardware) < 1)
    return std::string("no CTA fits a multiprocessor");
  return std::nullopt;
}

namespace {
/// The choices worth ranking for an m tile: what was seen to work on GPUs, not
/// all that is legal.
struct Choices {
  std::vector<int64_t> tileNs, tileKs;
  int64_t minStages, maxStages;
  std::vector<std::pair<int64_t, int64_t>> warps;
};
} // namespace

static Choices choicesFor(const MatmulProblem &problem, bool simt,
                          bool asyncCopy) {
  Choices c;
  if (simt)
    c = {{64},
         {64 / problem.elementBytes},
         2,
         3,
         {problem.tileRows <= 32   ? std::pair<int64_t, int64_t>{1, 4}
          : problem.tileRows <= 64 ? std::pair<int64_t, int64_t>{2, 4}
                                   : std::pair<int64_t, int64_t>{4, 2}}};
  else if (problem.tileRows <= 16)
    // Memory bound: several CTAs an SM, long rows, a deep ring.
    c = {{64, 128}, {64, 128}, 4, 6, {{1, 4}}};
  else if (problem.tileRows <= 32)
    c = {{64, 128}, {64, 128}, 3, 6, {{1, 4}, {2, 2}}};
  else if (problem.tileRows <= 64)
    c = {{64, 128, 256}, {32, 64}, 3, 5, {{1, 4}, {2, 2}, {2, 4}}};
  else
    // Compute bound: warps of 64x32 or 64x64.
    c = {{128, 256}, {32, 64}, 3, 4, {{2, 4}, {4, 2}}};
  // Totals and twice as many elements in a chunk: fewer columns a thread.
  if (simt && problem.elementBytes == 1 && problem.tileRows > 64)
    c.tileNs = {32};
  // Rows of 64 or 128 bytes, and no more than 64 accumulators a thread.
  if (!simt && problem.elementBytes == 1) {
    c.tileKs = {64, 128};
    if (problem.tileRows > 64)
      c.tileNs = {64, 128};
  }
  // Scales and zero points take registers of the sums.
  if (!simt && problem.codeBits > 0 && problem.tileRows > 64)
    c.tileNs = {64, 128};
  // Without cp.async a deep ring only costs shared memory.
  if (!asyncCopy)
    c.minStages = c.maxStages = 2;
  return c;
}

/// CTAs of `s` on a multiprocessor that leave a thread of engine simt the
/// registers that its operands take; more and ptxas spills.
static int64_t simtCtasPerSm(const MatmulProblem &problem, const Schedule &s,
                             const Hardware &hardware) {
  // Two sets of 16 bytes of each of a lane's rows of lhs and of weights; what
  // is narrower than float is widened, all weights and a row of lhs at once.
  int64_t rowsOfLhs = s.tileM / s.warpsM / 4;
  int64_t rowsOfWeights = s.tileN / s.warpsN / 8;
  int64_t operands = 2 * 4 * (rowsOfLhs + rowsOfWeights);
  if (problem.elementBytes < 4)
    operands += 16 / problem.elementBytes * (rowsOfWeights + 1);
  constexpr int64_t kAddresses = 48;
  // Sums of 8-bit operands have totals beside them, and scales.
  int64_t sums = rowsOfLhs * rowsOfWeights;
  if (problem.elementBytes == 1)
    sums = 2 * sums + 2 * rowsOfLhs;
  if (problem.codeBits > 0)
    sums += 24; // scales, zero points and their places
  int64_t registers = operands + sums + kAddresses;
  return std::max<int64_t>(hardware.registersPerSm / (registers * s.threads()),
                           1);
}

/// Two consuming warpgroups, and every depth of the ring that fits.
static std::vector<Schedule> candidatesWithRoles(const MatmulProblem &problem,
                                                 const std::string &engine,
                                                 const Hardware &hardware) {
  std::vector<Schedule> result;
  for (int64_t stages = 10; stages >= 2; --stages) {
    Schedule s;
    s.engine = engine;
    s.tileM = problem.tileRows, s.tileN = 128;
    s.tileK = 128 / problem.elementBytes;
    s.stages = stages;
    s.groupM = 1;
    s.setRoles();
    s.source = "modelled";
    if (!whyIllegal(problem, s, hardware))
      result.push_back(s);
  }
  return result;
}

std::vector<Schedule> compiler::candidates(const MatmulProblem &problem,
                                           const std::string &engine,
                                           const Hardware &hardware) {
  if (specializedEngine(engine))
    return candidatesWithRoles(problem, engine, hardware);
  std::vector<Schedule> result;
  Choices choices = choicesFor(problem, engine == "simt", hardware.asyncCopy);
  for (int64_t tileN : choices.tileNs) {
    for (int64_t tileK : choices.tileKs) {
      for (int64_t stages = choices.minStages; stages <= choices.maxStages;
           ++stages) {
        for (auto [warpsM, warpsN] : choices.warps) {
          Schedule s;
          s.engine = engine;
          s.tileM = problem.tileRows;
          s.tileN = tileN;
          s.tileK = tileK;
          s.stages = stages;
          s.warpsM = warpsM;
          s.warpsN = warpsN;
          s.source = "modelled";
          if (whyIllegal(problem, s, hardware))
            continue;
          // More than this many leave each too few registers to be worth it.
          s.ctasPerSm = std::min<int64_t>(occupancy(problem, s, hardware), 8);
          if (engine == "simt")
            s.ctasPerSm =
                std::min(s.ctasPerSm, simtCtasPerSm(problem, s, hardware));
          result.push_back(s);
        }
      }
    }
  }
  return result;
}

namespace {
/// One row: with `engine`, serves operands of so many bytes and m tiles of
/// tileM rows, at most `rowsPerExpert` rows an expert in the mean.
struct GoodRow {
  std::string_view engine;
  int64_t elementBytes;
  int64_t tileM;
  double rowsPerExpert;
  int64_t tileN, tileK, stages;
  int64_t warpsM, warpsN; ///< 0 where the engine's warps have roles
  int64_t ctasPerSm, groupM;
  /// Of an expert, in bytes; more than this alone serves, and of the first
  /// matmul alone. 0: all.
  int64_t weightAbove = 0;
  /// Less than this alone serves, and of the second matmul alone. 0: all.
  int64_t weightBelow = 0;
  /// Weight rows of at most so many bytes alone serves, and of the second
  /// matmul alone. 0: all.
  int64_t mostRowBytes = 0;
  /// Serves matmuls alone that quantize groups of their result.
  bool ofGroups = false;
  /// Serves layers alone whose experts have first weights of at most so many
  /// bytes, and second ones of half as many. 0: all.
  int64_t firstWeight = 0;
  /// Rows of a consuming warpgroup: see Schedule::rowsOfWarpgroup.
  int64_t warpgroupRows = 64;
  /// Serves scales of groups along k alone, with tokens as an instruction's
  /// rows.
  bool tokensAsRows = false;
};
} // namespace

/// The first row that is legal for a problem, and whose engine may serve it, is
/// taken: so this order says which engine serves which tiles. Measured on an
/// H100 with layers of Qwen3-30B-A3B and Mixtral-8x7B in bf16, 2026-11-21;
/// wgmma tiles of 32 and 128 rows, and of 16 rows of large experts, are there
/// for who asks for them: those of small experts run beside each other. Where
/// the weight of an expert outgrows the L2, tiles share it while it passes;
/// where it is small, the column tiles of down share the rows.
/// Operands of 8 bits: wgmma alone multiplies them as such there. A tile of few
/// tokens and short weight rows is read faster than its ends are done with:
/// there it is four warpgroups wide, and where groups are quantized, so that
/// two column tiles of one are multiplied at a time and not in turn. Where k is
/// short, an epilogue is as long as the multiplies: it hides behind those of a
/// second CTA. Where scales change along k and tokens are many, adding sums
/// takes as long as multiplying: least where a thread has few tokens.
static constexpr GoodRow kGoodRows[] = {
    {"wgmma", 2, 16, 1e9, 128, 64, 10, 0, 0, 1, 1, 0, 0, 0, false, 8 << 20},
    {"mma_sync", 2, 16, 1e9, 64, 128, 4, 1, 4, 3, 1},
    {"wgmma", 2, 16, 1e9, 128, 64, 10, 0, 0, 1, 1},
    {"wgmma", 2, 32, 1e9, 128, 64, 8, 0, 0, 1, 1},
    {"mma_sync", 2, 32, 1e9, 64, 128, 4, 1, 4, 2, 1},
    {"wgmma", 2, 64, 1e9, 128, 64, 8, 0, 0, 1, 1},
    {"mma_sync", 2, 64, 64, 64, 128, 3, 1, 4, 2, 1},
    {"mma_sync", 2, 64, 1e9, 128, 64, 3, 1, 4, 2, 4},
    {"wgmma", 2, 128, 1e9, 128, 64, 6, 0, 0, 1, 1},
    {"mma_sync", 2, 128, 1e9, 256, 64, 3, 2, 4, 1, 4},
    {"mma_sync", 2, 128, 1e9, 256, 32, 4, 2, 4, 1, 4},
    {"wgmma", 2, 192, 1e9, 128, 64, 5, 0, 0, 1, 4, 64 << 20},
    {"wgmma", 2, 192, 1e9, 128, 64, 5, 0, 0, 1, 4, 0, 8 << 20},
    {"wgmma", 2, 192, 1e9, 128, 64, 5, 0, 0, 1, 1},
    {"wgmma", 2, 256, 1e9, 128, 64, 4, 0, 0, 1, 4, 64 << 20},
    {"wgmma", 2, 256, 1e9, 128, 64, 4, 0, 0, 1, 4, 0, 8 << 20},
    {"wgmma", 2, 256, 1e9, 128, 64, 4, 0, 0, 1, 1},
    {"wgmma", 1, 16, 1e9, 256, 128, 6, 0, 0, 1, 1, 0, 0, 384},
    {"wgmma", 1, 16, 1e9, 256, 128, 6, 0, 0, 1, 1, 0, 0, 0, true},
    {"wgmma", 1, 16, 1e9, 128, 128, 10, 0, 0, 1, 1},
    {"wgmma", 1, 32, 1e9, 128, 128, 8, 0, 0, 1, 1},
    {"wgmma", 1, 64, 1e9, 128, 128, 4, 0, 0, 2, 1, 0, 0, 384, false, 0, 128},
    {"wgmma", 1, 64, 1e9, 64, 128, 5, 0, 0, 2, 1},
    {"wgmma", 1, 64, 1e9, 128, 128, 8, 0, 0, 1, 1},
    {"wgmma", 1, 128, 1e9, 128, 128, 3, 0, 0, 2, 1, 0, 8 << 20, 0, false, 0,
     128},
    {"wgmma", 1, 128, 1e9, 128, 128, 6, 0, 0, 1, 4, 64 << 20, 0, 0, false, 0,
     64, true},
    {"wgmma", 1, 128, 1e9, 128, 128, 6, 0, 0, 1, 1, 0, 0, 0, false, 0, 64,
     true},
    {"wgmma", 1, 128, 1e9, 128, 128, 5, 0, 0, 1, 1, 0, 0, 0, false, 0, 64,
     true},
    {"wgmma", 1, 128, 1e9, 128, 128, 5, 0, 0, 1, 4, 64 << 20},
    {"wgmma", 1, 128, 1e9, 128, 128, 5, 0, 0, 1, 1},
    {"wgmma", 1, 192, 1e9, 128, 128, 5, 0, 0, 1, 4, 64 << 20},
    {"wgmma", 1, 192, 1e9, 128, 128, 5, 0, 0, 1, 1},
};

std::optional<Schedule>
compiler::knownGood(const MatmulProblem &problem,
                    const std::vector<std::string> &engines,
                    const Hardware &hardware) {
  double rows = double(problem.maxTokens) * double(problem.topK) /
                double(problem.experts);
  for (const GoodRow &row : kGoodRows) {
    if (row.elementBytes != problem.elementBytes ||
        row.tileM != problem.tileRows || rows > row.rowsPerExpert ||
        std::find(engines.begin(), engines.end(), row.engine) == engines.end())
      continue;
    int64_t weight = problem.n * problem.k * problem.elementBytes;
    if (row.weightAbove && (!problem.first || weight <= row.weightAbove))
      continue;
    if (row.weightBelow && (problem.first || weight >= row.weightBelow))
      continue;
    if (row.mostRowBytes &&
        (problem.first || problem.k * problem.elementBytes > row.mostRowBytes))
      continue;
    if (row.ofGroups && !problem.quantizesGroups())
      continue;
    // Rows that come by expert were measured with swapped operands alone.
    if (row.tokensAsRows &&
        (!problem.groupScales || (problem.first && !problem.gather)))
      continue;
    if (row.firstWeight &&
        (problem.first ? weight : 2 * weight) > row.firstWeight)
      continue;
    Schedule s;
    s.engine = row.engine;
    s.tileM = row.tileM, s.tileN = row.tileN, s.tileK = row.tileK;
    s.stages = row.stages;
    s.groupM = row.groupM;
    s.source = "default";
    if (row.warpsM) {
      s.warpsM = row.warpsM, s.warpsN = row.warpsN;
    } else {
      // Roles share the registers that the number of CTAs leaves.
      s.ctasPerSm = row.ctasPerSm;
      s.swap = !row.tokensAsRows;
      s.setRoles(row.warpgroupRows);
    }
    if (whyIllegal(problem, s, hardware))
      continue;
    s.ctasPerSm = std::min(row.ctasPerSm, occupancy(problem, s, hardware));
    return s;
  }
  return std::nullopt;
}
