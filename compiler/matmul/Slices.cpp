//===- Slices.cpp - second matmul fused with the combine ------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The sizes must match templates/moe/matmul/slices/layout.cuh. Emitted code
// asserts this.
//
//===----------------------------------------------------------------------===//

#include "compiler/matmul/Slices.h"

#include <algorithm>

using namespace moec;
using namespace moec::compiler;

static constexpr int64_t kColumns = 128, kRowBytes = 128;
/// Fixed time per slice in seconds, from which slicesRanges() computes the
/// smallest token count. CTAs wait for each other at the end of each slice.
static constexpr double kSecondsOfSlice = 4e-6;
/// Minimum number of slices. With fewer slices, too little of the summation
/// overlaps with multiplication.
static constexpr int64_t kLeastSlices = 16;

namespace {
constexpr Measured kMeasured = {"bench/notes/slices-h100.md", "2026-11-21"};

/// With three buffers, CTAs may progress at different speeds. Above 32,768
/// rows, three buffers exceed the L2 cache, so the second rule has two buffers,
/// and more warps that sum. In both rules two warpgroups multiply. There is no
/// rule for 16-bit operands, which lose more time at the start and end of the
/// kernel than they gain.
// clang-format off
constexpr struct {
  struct { int64_t elementBytes, rowsUpTo; } when;
  struct { int64_t tileM, buffers; WarpRoles warps; } then;
  Measured measured;
} kRules[] = {
    {{.elementBytes = 1, .rowsUpTo = 32768}, {.tileM = 96, .buffers = 3, .warps = {8, 8, 88, 168}}, kMeasured},
    {{.elementBytes = 1, .rowsUpTo = 65536}, {.tileM = 64, .buffers = 2, .warps = {12, 8, 72, 128}}, kMeasured},
};
// clang-format on
} // namespace

static int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t compiler::slicesSharedBytes(const MatmulProblem &problem,
                                    const SlicesSchedule &schedule) {
  const int64_t steps = ceilDiv(problem.k * problem.elementBytes, kRowBytes);
  const int64_t ring = schedule.stages * schedule.tileN * kRowBytes;
  const int64_t scalesAt = ring + steps * schedule.blockRows * kRowBytes;
  int64_t bytes = scalesAt;
  if (problem.groupScales)
    bytes += ceilDiv(problem.k, kScaledColumns) * schedule.blockRows * 4;
  // Segments of rows, and the pairs of the tokens that the CTA sums. A tile may
  // be computed with up to 24 padding rows.
  bytes += std::max<int64_t>((schedule.blockRows / 8 + 1) * 16, 128);
  bytes += ceilDiv(schedule.blockTokens * problem.pairs, 2) * 16;
  bytes = std::max(bytes, scalesAt + 24 * kRowBytes);
  const int64_t columns = 64;
  bytes += schedule.roles().consumerWarps / 4 *
           std::min<int64_t>(schedule.tileM, 64) *
           (columns * problem.resultBytes + 16);
  // Weight scales and mbarriers.
  return bytes + ceilDiv(schedule.stages, 4) * 16 +
         (2 * schedule.stages + 4 * schedule.buffers) * 8;
}

std::optional<SlicesSchedule>
compiler::slicesSchedule(const MatmulProblem &problem,
                         const Hardware &hardware) {
  const int64_t rows = problem.maxTokens * problem.pairs;
  for (const auto &[when, then, measured] : kRules) {
    if (when.elementBytes != problem.elementBytes || rows > when.rowsUpTo)
      continue;
    SlicesSchedule s;
    s.tileM = then.tileM, s.tileN = kColumns;
    s.tileK = kRowBytes / problem.elementBytes;
    s.warps = then.warps;
    s.buffers = then.buffers;
    // Each expert's rows start at a multiple of 8.
    const int64_t eights = (rows + 7 * problem.localExperts) / 8;
    s.blockRows = ceilDiv(eights, hardware.sms) * 8;
    s.blockTokens = ceilDiv(problem.maxTokens, hardware.sms);
    s.stages = ceilDiv(problem.k, s.tileK);
    constexpr int64_t kMostStages = 12;
    if (slicesSharedBytes(problem, s) > hardware.sharedPerBlock)
      return std::nullopt;
    while (++s.stages <= kMostStages &&
           slicesSharedBytes(problem, s) <= hardware.sharedPerBlock) {
    }
    --s.stages;
    return s;
  }
  return std::nullopt;
}

std::vector<SlicesRange> compiler::slicesRanges(const MatmulProblem &problem,
                                                const Hardware &hardware) {
  std::vector<SlicesRange> ranges;
  if (problem.n % kColumns || problem.n / kColumns < kLeastSlices)
    return ranges;
  // `rows` is the number of rows at which two times are equal: the memory time
  // for writing and reading one slice of partial sums, which slices avoid, and
  // the fixed time per slice.
  const double rows = kSecondsOfSlice * hardware.bandwidth /
                      double(kColumns * 2 * problem.resultBytes);
  const double inL2 =
      double(hardware.l2Bytes) / double(problem.n * problem.resultBytes);
  int64_t first =
      int64_t(std::max(rows, inL2)) / std::max<int64_t>(problem.pairs, 1) + 1;
  for (const auto &[when, then, measured] : kRules) {
    if (when.elementBytes != problem.elementBytes)
      continue;
    MatmulProblem up = problem;
    up.maxTokens = std::min(when.rowsUpTo / problem.pairs, problem.maxTokens);
    // Halves the rule's maximum token count until some slices schedule fits.
    while (up.maxTokens >= first && !slicesSchedule(up, hardware))
      up.maxTokens /= 2;
    if (up.maxTokens < first)
      continue;
    ranges.push_back({first, up.maxTokens});
    first = up.maxTokens + 1;
  }
  return ranges;
}

Cost compiler::slicesCost(const MatmulProblem &problem,
                          const SlicesSchedule &schedule,
                          const Hardware &hardware, const ExpertRows &rows) {
  // CTAs wait for each other at the end of each slice. The constant was fitted
  // on an H100 (bench/notes/cost-model.md).
  constexpr double kSecondsOfStep = 6.4e-6;
  Cost cost = estimate(problem, schedule, hardware, rows);
  const double steps = kSecondsOfStep * double(ceilDiv(problem.n, kColumns));
  cost.fillSeconds += steps, cost.seconds += steps;
  return cost;
}
