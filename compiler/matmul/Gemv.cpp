//===- Gemv.cpp - schedules of the few-token kernels ----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The sizes must match templates/moe/matmul/few_tokens/gemv.cuh and
// slab_gemv.cuh. Emitted code asserts this.
//
//===----------------------------------------------------------------------===//

#include "compiler/matmul/Gemv.h"

#include "compiler/matmul/Slabs.h"

#include <algorithm>

using namespace moec;
using namespace moec::compiler;

/// Alignment in bytes of the weight pipeline stages in shared memory.
static constexpr int64_t kLineBytes = 128;

/// Returns the static shared memory in bytes: the maxima (amax), the pairs and
/// the order of the pairs.
static int64_t staticBytes(const MatmulProblem &problem) {
  constexpr int64_t kMaxima = 512, kPair = 56;
  return kMaxima + problem.maxTokens * problem.pairs * kPair;
}

namespace {
constexpr Measured kWhole = {"bench/notes/gemv-h100.md", "2026-11-21"};
constexpr Measured kBeside = {"bench/notes/gemv-h100.md", "2026-11-27"};
constexpr Measured kUnits = {"bench/notes/weight-only-h200.md", "2026-11-29"};

struct GemvRule {
  struct When {
    bool inFragments = false; ///< weights are codes in MMA fragment order
    int64_t codeBits = 0, groupK = 0, elementBytes = 0;
    /// True: only the layer's first matmul. False: only the second.
    std::optional<bool> first = std::nullopt;
    int64_t tokensUpTo = 0;
    /// Upper bound on the bytes of the layer's first weight; 0: no bound.
    int64_t firstUpTo = 0;
    /// All pairs together have at least as many units as the GPU has SMs. A
    /// unit is a block of weight rows (see GemvSchedule).
    bool unitsFillGpu = false;
    /// One expert has at most as many units as the GPU has SMs.
    bool unitsFitGpu = false;
  } when;
  struct Then {
    int64_t warps, stages, ctasPerSm = 1;
    int64_t unitRows = 0;    ///< see GemvSchedule
    bool besideNext = false; ///< see GemvSchedule
  } then;
  Measured measured = {};
};

/// The first rule whose conditions hold applies. `stages` is for the gate_up
/// kernel, which reads two weight rows per result. The down kernel reads one
/// weight row per result and has twice as many stages. With fewer bytes in
/// flight, the other engines' kernels are faster. The first rule is an
/// exception: the second kernel routes and prefetches its weights while the
/// first kernel runs.
// clang-format off
constexpr GemvRule kGemvRules[] = {
    {{.elementBytes = 1, .tokensUpTo = 1, .firstUpTo = 8 << 20}, {.warps = 16, .stages = 4, .besideNext = true}, kBeside},
    {{}, {.warps = 16, .stages = 6}, kWhole},
    {{}, {.warps = 16, .stages = 4}, kWhole},
    {{.inFragments = true, .codeBits = 4, .groupK = 16, .first = true, .unitsFillGpu = true}, {.warps = 4, .stages = 2, .ctasPerSm = 4, .unitRows = 64}, kUnits},
    {{.inFragments = true, .codeBits = 4, .first = true, .unitsFillGpu = true}, {.warps = 4, .stages = 3, .ctasPerSm = 4, .unitRows = 64}, kUnits},
    {{.inFragments = true, .codeBits = 4, .first = false, .unitsFitGpu = true}, {.warps = 16, .stages = 3, .unitRows = 16}, kUnits},
    {{.inFragments = true}, {.warps = 8, .stages = 4, .ctasPerSm = 2, .unitRows = 16}},
    {{.inFragments = true}, {.warps = 8, .stages = 3, .ctasPerSm = 2, .unitRows = 16}},
    {{.inFragments = true}, {.warps = 8, .stages = 3, .unitRows = 16}},
};
// clang-format on
} // namespace

static bool holds(const GemvRule::When &when, const MatmulProblem &problem,
                  int64_t unitRows, const Hardware &hardware) {
  const auto isOrAny = [](int64_t asked, int64_t is) {
    return asked == 0 || asked == is;
  };
  const auto isUpTo = [](int64_t is, int64_t most) {
    return most == 0 || is <= most;
  };
  const int64_t units = unitRows > 0 ? problem.n / unitRows : 0;
  return when.inFragments == (problem.codeBits > 0) &&
         isOrAny(when.codeBits, problem.codeBits) &&
         isOrAny(when.groupK, problem.groupK) &&
         isOrAny(when.elementBytes, problem.elementBytes) &&
         (!when.first || *when.first == problem.first) &&
         isUpTo(problem.maxTokens, when.tokensUpTo) &&
         isUpTo(problem.firstBytes(), when.firstUpTo) &&
         (!when.unitsFillGpu || units * problem.pairs >= hardware.sms) &&
         (!when.unitsFitGpu || units <= hardware.sms);
}

/// Returns the number of columns in a k step. A unit of one slab (16 weight
/// rows) processes two slabs along k.
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

/// Returns the dynamic shared memory in bytes. Each warp has one slot per
/// pipeline stage, which holds the codes, scales and lhs rows of one k step.
/// The accumulators of two work items follow the slots.
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
  // Bytes of a weight row in one k step: 16 bytes per lane, and a scale.
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

/// Returns true if ctasPerSm CTAs fit on an SM. With besideNext, returns true
/// if one CTA of each of the layer's two kernels fits on an SM together. In
/// units of 64 rows, each lane loads at most 16 bytes of scales and zero points
/// per k step, so larger steps do not fit.
static bool fits(const MatmulProblem &problem, const GemvSchedule &schedule,
                 const Hardware &hardware) {
  constexpr int64_t kLaneBytes = 16, kLanes = 32;
  if (schedule.unitRows > kSlabRows &&
      stepGroups(problem, schedule) * schedule.unitRows * problem.numberBytes >
          kLanes * kLaneBytes)
    return false;
  const int64_t bytes = sharedBytes(problem, schedule) + staticBytes(problem);
  const int64_t ctas = schedule.besideNext ? 2 : schedule.ctasPerSm;
  return bytes <= hardware.sharedPerBlock &&
         ctas * (bytes + kReservedPerCta) <= hardware.sharedPerSm &&
         ctas * schedule.threads <= hardware.threadsPerSm;
}

std::optional<GemvSchedule> compiler::gemvSchedule(const MatmulProblem &problem,
                                                   const Hardware &hardware) {
  for (const auto &[when, then, measured] : kGemvRules) {
    if (!holds(when, problem, then.unitRows, hardware))
      continue;
    GemvSchedule schedule;
    schedule.stages = then.stages * (problem.gated || when.inFragments ? 1 : 2);
    schedule.blockTokens = problem.maxTokens;
    schedule.threads = 32 * then.warps;
    schedule.ctasPerSm = then.ctasPerSm;
    schedule.unitRows = then.unitRows;
    schedule.besideNext = then.besideNext;
    if (fits(problem, schedule, hardware))
      return schedule;
  }
  return std::nullopt;
}

Cost compiler::gemvCost(const MatmulProblem &problem, double touchedExperts,
                        const Hardware &hardware) {
  // The kernel routes by itself and has no tile pipeline to fill. The constants
  // were fitted on an H100 (bench/notes/cost-model.md).
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
