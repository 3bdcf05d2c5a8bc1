//===- Gemv.cpp - schedules of the two kernels of few tokens --------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Mirrors templates/moe/matmul/few_tokens/gemv.cuh and slab_gemv.cuh; emitted
// code asserts it.
//
//===----------------------------------------------------------------------===//

#include "compiler/matmul/Gemv.h"

#include "compiler/matmul/Slabs.h"

#include <algorithm>
#include <span>

using namespace moec;
using namespace moec::compiler;

/// The ring of weights begins at a multiple of it.
static constexpr int64_t kLineBytes = 128;

/// The kernels keep this besides: maxima, the pairs, and their order.
static int64_t staticBytes(const MatmulProblem &problem) {
  constexpr int64_t kMaxima = 512, kPair = 56;
  return kMaxima + problem.maxTokens * problem.pairs * kPair;
}

static constexpr Measured kMeasured = {"bench/notes/gemv-h100.md",
                                       "2026-11-21"};

static constexpr Measured kBeside = {"bench/notes/gemv-h100.md", "2026-11-27"};

namespace {
struct Row {
  int64_t warps, stages, ctasPerSm = 1;
  int64_t unitRows = 0; ///< see GemvSchedule
  int64_t groupK = 0;   ///< columns of a group that it serves; 0: any
  /// A CTA of the layer's other kernel fits beside this one's. Serves one token
  /// and first weights of at most so many bytes, second ones of half of that.
  int64_t besideUpTo = 0;
  Measured measured = {};
};
} // namespace

/// Best first, for a kernel with two weight rows a result; one with a single
/// row has twice the stages. Less on its way is slower than the kernels for
/// more tokens, but where the second kernel routes and asks for its weights
/// while the first one still multiplies.
static constexpr Row kRows[] = {
    {.warps = 16, .stages = 4, .besideUpTo = 8 << 20, .measured = kBeside},
    {.warps = 16, .stages = 6, .measured = kMeasured},
    {.warps = 16, .stages = 4, .measured = kMeasured},
};

static constexpr Measured kUnits = {"bench/notes/weight-only-h200.md",
                                    "2026-11-29"};

/// Schedules of codes in the order of fragments. The first that serves is
/// taken.
static constexpr Row kFragmentRows[] = {
    {.warps = 4,
     .stages = 2,
     .ctasPerSm = 4,
     .unitRows = 64,
     .groupK = 16,
     .measured = kUnits},
    {.warps = 4,
     .stages = 3,
     .ctasPerSm = 4,
     .unitRows = 64,
     .measured = kUnits},
    {.warps = 16, .stages = 3, .unitRows = 16, .measured = kUnits},
    {.warps = 8, .stages = 4, .ctasPerSm = 2, .unitRows = 16},
    {.warps = 8, .stages = 3, .ctasPerSm = 2, .unitRows = 16},
    {.warps = 8, .stages = 3, .unitRows = 16},
};

/// Columns of a step: a unit of one slab takes two slabs along k.
static int64_t stepColumns(const GemvSchedule &schedule) {
  return (schedule.unitRows == kSlabRows ? 2 : 1) * kSlabBlock;
}
static int64_t stepGroups(const MatmulProblem &problem,
                          const GemvSchedule &schedule) {
  const int64_t columns = stepColumns(schedule);
  const bool isShared = problem.groupK == 0 || problem.groupK >= problem.k ||
                        problem.groupK % columns == 0;
  return isShared ? 1 : columns / std::min(problem.groupK, kSlabBlock);
}

/// Bytes of shared memory. Each warp and stage has a slot for the codes,
/// numbers and rows of lhs of one step; after the slots come the sums of two
/// items.
static int64_t slabRingBytes(const MatmulProblem &problem,
                             const GemvSchedule &schedule) {
  const int64_t rows = schedule.unitRows, columns = stepColumns(schedule);
  const int64_t tileRows = std::min(problem.maxTokens, kFewTileRows);
  const int64_t slot =
      rows * columns * problem.codeBits / 8 +
      stepGroups(problem, schedule) * rows * problem.numberBytes +
      tileRows * (2 * columns + 16);
  const int64_t sums =
      rows * (problem.first ? tileRows : problem.maxTokens) * 4;
  return schedule.threads / 32 * (schedule.stages * slot + 2 * sums);
}

int64_t compiler::sharedBytes(const MatmulProblem &problem,
                              const GemvSchedule &schedule) {
  if (problem.codeBits > 0)
    return slabRingBytes(problem, schedule);
  const int64_t rows = problem.maxTokens * (problem.first ? 1 : problem.pairs);
  const int64_t parts = problem.gated ? 2 : 1;
  int64_t operand = rows * problem.k * problem.elementBytes;
  if (problem.scaled) {
    int64_t scales = problem.groupScales ? (problem.k + 127) / 128 : 1;
    operand += rows * scales * 4;
  }
  operand = (operand + kLineBytes - 1) / kLineBytes * kLineBytes;
  // A weight row of a step: 16 bytes of each lane, and a scale.
  int64_t row = problem.scaled ? 640 : 512;
  return operand + schedule.threads / 32 * schedule.stages * parts * row;
}

int64_t compiler::launchBytes(int64_t sharedBytes, int64_t ctasPerSm,
                              const Hardware &hardware) {
  constexpr int64_t kStep = 128;
  const int64_t ofMore = hardware.sharedPerSm / (ctasPerSm + 1);
  const int64_t least = (ofMore - kReservedPerCta) / kStep * kStep + kStep;
  return std::max(sharedBytes, least);
}

/// Two CTAs of such a schedule fit a multiprocessor. bytes: of shared memory.
static bool servesBeside(const MatmulProblem &problem, const Row &row,
                         int64_t bytes, const Hardware &hardware) {
  return problem.maxTokens == 1 && problem.elementBytes == 1 &&
         problem.firstBytes() <= row.besideUpTo &&
         2 * (bytes + kReservedPerCta) <= hardware.sharedPerSm &&
         2 * 32 * row.warps <= hardware.threadsPerSm;
}

/// Returns true if the row's schedule serves the problem. Units of 64 rows need
/// enough units to fill all multiprocessors. 16 warps serve a second kernel
/// that has at most one unit for each multiprocessor.
static bool servesSlabs(const MatmulProblem &problem, const Row &row,
                        const GemvSchedule &schedule,
                        const Hardware &hardware) {
  constexpr int64_t kLaneBytes = 16, kLanes = 32;
  const int64_t units = problem.n / row.unitRows;
  if (row.unitRows > kSlabRows)
    return problem.first && problem.codeBits == 4 &&
           (row.groupK == 0 || row.groupK == problem.groupK) &&
           units * problem.pairs >= hardware.sms &&
           stepGroups(problem, schedule) * row.unitRows * problem.numberBytes <=
               kLanes * kLaneBytes;
  return row.warps <= 8 ||
         (!problem.first && problem.codeBits == 4 && units <= hardware.sms);
}

std::optional<GemvSchedule> compiler::gemvSchedule(const MatmulProblem &problem,
                                                   const Hardware &hardware) {
  const bool isSlabs = problem.codeBits > 0;
  for (const Row &row : isSlabs ? std::span<const Row>(kFragmentRows)
                                : std::span<const Row>(kRows)) {
    GemvSchedule schedule;
    schedule.stages = row.stages * (problem.gated || isSlabs ? 1 : 2);
    schedule.blockTokens = problem.maxTokens;
    schedule.threads = 32 * row.warps;
    schedule.ctasPerSm = row.ctasPerSm;
    schedule.unitRows = row.unitRows;
    schedule.besideNext = row.besideUpTo > 0;
    if (isSlabs && !servesSlabs(problem, row, schedule, hardware))
      continue;
    const int64_t bytes = sharedBytes(problem, schedule) + staticBytes(problem);
    if (schedule.besideNext && !servesBeside(problem, row, bytes, hardware))
      continue;
    if (bytes <= hardware.sharedPerBlock &&
        schedule.ctasPerSm * (bytes + kReservedPerCta) <=
            hardware.sharedPerSm &&
        schedule.ctasPerSm * schedule.threads <= hardware.threadsPerSm)
      return schedule;
  }
  return std::nullopt;
}

Cost compiler::gemvCost(const MatmulProblem &problem, double touchedExperts,
                        const Hardware &hardware) {
  // A kernel routes for itself, and has no tiles to fill. Fitted to an H100:
  // bench/notes/cost-model.md.
  constexpr double kKernelSeconds = 4.9e-6, kKernelSecondsOfCodes = 5.8e-6;
  constexpr double kBandwidth = 0.94;
  constexpr ConversionClocks kConversion = {0.016, 1.13};
  Cost cost;
  cost.bytes = touchedExperts * problem.weightBytes();
  cost.memorySeconds = cost.bytes / (hardware.bandwidth * kBandwidth);
  cost.convertSeconds = conversionSeconds(
      problem, touchedExperts * double(problem.n) * double(problem.k),
      kConversion, hardware);
  cost.fillSeconds =
      problem.codeBits > 0 ? kKernelSecondsOfCodes : kKernelSeconds;
  cost.add();
  return cost;
}
