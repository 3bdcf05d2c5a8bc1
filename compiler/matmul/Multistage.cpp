//===- Multistage.cpp - engines with a grid of warps ----------------------===//
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

#include "compiler/matmul/Multistage.h"

#include "compiler/matmul/CostModel.h"
#include "compiler/matmul/Slabs.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

using namespace moec;
using namespace moec::compiler;

/// Maximum number of weight rows per quantization group: the width of the
/// narrowest tile. For larger groups a separate quantization launch is faster
/// (docs/decisions.md, 020).
static constexpr int64_t kMostRowsOfGroup = 64;

static constexpr Measured kTiles = {"bench/notes/mma_sync-h100.md",
                                    "2026-11-21"};

/// No rule chooses tiles of 32 rows: they are at most 1 % faster than tiles of
/// 16 or 64 rows, and each tile size costs two kernel compilations. If a
/// large tile has few rows, the kernel runs a separate, smaller code path
/// (templates/moe/matmul/roles/grid.cuh).
static constexpr TileRule kTileRules[] = {
    {{.mostRows = 8}, {.rows = 16}, kTiles},
    {{.mostRows = 48}, {.rows = 64}, kTiles},
    {{}, {.rows = 128}, kTiles},
};

std::span<const TileRule> Multistage::tileRules() const { return kTileRules; }

std::optional<std::string>
Multistage::whyGroupsApart(const MatmulProblem &problem) const {
  const int64_t rows = problem.groupColumns * (problem.gated ? 2 : 1);
  if (rows >= 1 && kMostRowsOfGroup % rows == 0)
    return std::nullopt;
  return fmt::format("{} columns that share a scale are {} weight rows; engine "
                     "'{}' quantizes a divisor of {}",
                     problem.groupColumns, rows, row.name, kMostRowsOfGroup);
}

void Multistage::setWarps(Schedule &s, const ScheduleChoice &choice,
                          const MatmulProblem &problem,
                          const Hardware &hardware) const {
  s.warps = choice.warps;
  s.ctasPerSm =
      std::clamp<int64_t>(occupancy(problem, s, hardware), 1, choice.ctasPerSm);
}

/// Returns the reason why warps cannot multiply their tiles if weights are in
/// fragment order, or nullopt. A warp multiplies blocks of 16 x 16. It divides
/// its tokens into equal parts of at most 64 tokens, and each part has whole
/// blocks (templates/moe/matmul/atom/mma_sync.cuh).
static std::optional<std::string> whyNoBlocks(const Schedule &s) {
  constexpr int64_t kBlock = 16, kMostOfPart = 64;
  const int64_t m = s.tileM / s.grid().m, n = s.tileN / s.grid().n;
  const int64_t parts = (m + kMostOfPart - 1) / kMostOfPart;
  if (m % (parts * kBlock) == 0 && n % kBlock == 0)
    return std::nullopt;
  return fmt::format("a warp's tile of {}x{}; with weights in fragments it "
                     "is of {}x{} blocks, and {} equal parts share its rows",
                     m, n, kBlock, kBlock, parts);
}

std::optional<std::string> Multistage::whyIllegal(const MatmulProblem &problem,
                                                  const Schedule &s) const {
  if (s.hasRoles())
    return fmt::format("engine '{}' has no warps with roles", row.name);
  if (problem.inFragments) {
    if (auto reason = whyNoSlabs(problem))
      return reason;
    if (problem.elementBytes != 2)
      return "weights in fragments are of operands of 16 bits";
    if (problem.codeBits == 6)
      return "weights in fragments have 4 or 8 bits";
    if (s.tileN % kSlabBlock || s.tileK % kSlabBlock)
      return fmt::format("tile n {} and tile k {}; weights in fragments take "
                         "multiples of {}",
                         s.tileN, s.tileK, kSlabBlock);
    if (problem.groupK > 0 && problem.groupK % s.tileK &&
        s.tileK % problem.groupK)
      return fmt::format("tile k {} and groups of {}; the one must divide the "
                         "other",
                         s.tileK, problem.groupK);
  }
  const WarpGrid &warps = s.grid();
  const Granularity grain = granularity(problem);
  if (warps.m < 1 || warps.n < 1)
    return "warps must be positive";
  if (s.tileM % (warps.m * grain.m) || s.tileN % (warps.n * grain.n))
    return fmt::format("a warp's tile of {}x{} over {}x{} warps is no multiple "
                       "of {}x{}",
                       s.tileM, s.tileN, warps.m, warps.n, grain.m, grain.n);
  if (problem.inFragments)
    if (auto reason = whyNoBlocks(s))
      return reason;
  int64_t made = s.tileN / (problem.gated ? 2 : 1);
  if (problem.quantizesGroups() && made % problem.groupColumns)
    return fmt::format("tile n {} makes {} columns; {} share a scale", s.tileN,
                       made, problem.groupColumns);
  // Consecutive k steps alternate between two sets of fragment registers.
  if (s.tileK % (2 * grain.k))
    return fmt::format("tile k {} is no multiple of {}", s.tileK, 2 * grain.k);
  int64_t rowBytes = s.tileK * problem.elementBytes;
  if (s.threads() * 16 % (8 * rowBytes))
    return fmt::format("{} threads cannot share rows of {} bytes evenly",
                       s.threads(), rowBytes);
  if (s.stages < 2 || s.stages > 8)
    return fmt::format("{} stages; 2 to 8 are possible", s.stages);
  if (s.threads() > 256)
    return fmt::format("{} threads; at most 256 are possible", s.threads());
  // A thread has 255 registers. With 128 accumulators, the other registers hold
  // the operand fragments of a 64x64 warp tile. Promotion of 8-bit operands
  // needs a second set of accumulators, so only 64 accumulators fit. The
  // conversion of weights in row order needs as many registers for scales, so
  // the limit is the same.
  bool promoted = problem.isPromoted();
  bool convertsRows = problem.codeBits > 0 && !problem.inFragments;
  int64_t most = promoted || convertsRows ? 64 : 128;
  if (s.tileM * s.tileN / s.threads() > most)
    return fmt::format("{} accumulators per thread; at most {} fit",
                       s.tileM * s.tileN / s.threads(), most);
  if (promoted && problem.promoteK % s.tileK)
    return fmt::format("tile k {} does not divide the {} after which sums are "
                       "promoted",
                       s.tileK, problem.promoteK);
  return std::nullopt;
}

std::vector<Schedule> Multistage::candidates(const MatmulProblem &problem,
                                             const Hardware &hardware) const {
  std::vector<Schedule> result;
  Choices all = choices(problem);
  // Without cp.async, additional pipeline stages only use shared memory.
  if (!hardware.asyncCopy)
    all.minStages = all.maxStages = 2;
  for (int64_t tileN : all.tileNs)
    for (int64_t tileK : all.tileKs)
      for (int64_t stages = all.minStages; stages <= all.maxStages; ++stages)
        for (auto [warpsM, warpsN] : all.warps) {
          Schedule s;
          s.engine = &row;
          s.tileM = problem.tileRows, s.tileN = tileN, s.tileK = tileK;
          s.stages = stages;
          s.warps = WarpGrid{warpsM, warpsN};
          s.source = "modelled";
          if (compiler::whyIllegal(problem, s, hardware))
            continue;
          s.ctasPerSm = std::min(ctasPerSm(problem, s, hardware),
                                 mostCtas(problem, s, hardware));
          result.push_back(s);
        }
  return result;
}

int64_t Multistage::sharedBytes(const MatmulProblem &problem,
                                const Schedule &schedule) const {
  // Each pipeline stage holds a tile of lhs and a tile of weights. After the
  // mainloop the same memory holds the result tile, with 16 bytes of padding
  // per row.
  int64_t rowBytes = schedule.tileK * problem.elementBytes;
  int64_t ring = schedule.stages * (schedule.tileM + schedule.tileN) * rowBytes;
  // Weights in fragment order keep that order in shared memory. The lhs rows
  // that follow them start at the next multiple of 128 bytes.
  constexpr int64_t kLine = 128;
  if (problem.inFragments)
    ring = schedule.stages *
           (schedule.tileM * rowBytes +
            (slabBytes(problem, schedule) + kLine - 1) / kLine * kLine);
  // Codes in row order are stored as words of 8 codes, which have 4 or 8 bytes.
  // Two tiles of converted weights follow the pipeline stages.
  else if (problem.codeBits > 0)
    ring = schedule.stages * (schedule.tileM * rowBytes +
                              schedule.tileN * (schedule.tileK / 8) *
                                  (problem.codeBits == 4 ? 4 : 8)) +
           2 * schedule.tileN * rowBytes;
  int64_t columns = problem.gated ? schedule.tileN / 2 : schedule.tileN;
  int64_t staging = schedule.tileM * (columns * problem.resultBytes + 16);
  return std::max(ring, staging);
}

/// Returns an upper estimate of the registers per thread, from the accumulators
/// and fragments. It determines the number of CTAs per SM that the kernel
/// requests.
int64_t Multistage::registers(const MatmulProblem &problem,
                              const Schedule &schedule) const {
  int64_t accumulators = schedule.tileM * schedule.tileN /
                         std::max<int64_t>(schedule.threads(), 1);
  // Registers for addresses, loop counters and predicates.
  int64_t addresses = problem.gather ? 44 : 40;
  // 8-bit operands need f32 totals in addition to the accumulators, and scales.
  if (problem.elementBytes == 1) {
    accumulators *= 2;
    addresses += 40;
  }
  // Conversion from row order needs scales, zero points and their addresses.
  if (problem.codeBits > 0 && !problem.inFragments)
    addresses += 64;
  int64_t estimate = accumulators + addresses +
                     fragments(problem, schedule.tileM / schedule.grid().m,
                               schedule.tileN / schedule.grid().n);
  return std::min<int64_t>((estimate + 7) / 8 * 8, 255);
}

/// Returns the number of CTAs per SM. It is at most 8, because with more CTAs
/// each would have too few registers.
int64_t Multistage::ctasPerSm(const MatmulProblem &problem,
                              const Schedule &schedule,
                              const Hardware &hardware) const {
  return std::min<int64_t>(occupancy(problem, schedule, hardware), 8);
}

/// Measured with mma_sync (bench/notes/cost-model.md).
static constexpr ConversionClocks kConversion = {0.030, 0.76};

EngineCost Multistage::cost(const MatmulProblem &problem, const Schedule &s,
                            const Hardware &hardware,
                            const MatmulWork &work) const {
  const double tilesPerSm = std::ceil(work.tilesOfSm);
  const double resident = work.resident;
  double warpM = double(s.tileM) / double(s.grid().m);
  double warpN = double(s.tileN) / double(s.grid().n);
  // Each k tile ends with a barrier. Other CTAs on the same SM hide its
  // latency.
  double barrier =
      1.0 + 24.0 / (double(s.tileK) * warpM * warpN / 64.0) / resident;
  double filled =
      std::min(1.0, resident * double(s.grid().m * s.grid().n) / 8.0);
  double tileFlops =
      2.0 * double(s.tileM) * double(s.tileN) * double(problem.k);
  // An SM with only one CTA is idle during that CTA's prologue and epilogue.
  // Additional CTAs fill these gaps.
  return {tilesPerSm * tileFlops * barrier /
              (rate(problem, hardware, warpM, warpN) * filled),
          conversionSeconds(problem, work.weights, kConversion, hardware),
          kRampSeconds + tilesPerSm * kTileSeconds / (resident * resident)};
}

std::string Multistage::mma(const MatmulProblem &problem, const Schedule &,
                            std::string_view type, bool isNative) const {
  if (problem.inFragments)
    return fmt::format("{}<{}>", row.fragmentPolicy, type);
  return fmt::format("{}<{}{}>", row.policy, type,
                     isNative              ? ", true, true"
                     : problem.sumsByGroup ? ", true"
                                           : "");
}
