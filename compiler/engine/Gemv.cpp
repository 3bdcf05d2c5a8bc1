//===- Gemv.cpp - schedules of the two kernels of few tokens --------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Mirrors templates/moe/skeleton/gemv.cuh; emitted code asserts it.
//
//===----------------------------------------------------------------------===//

#include "compiler/engine/Gemv.h"

using namespace moec;
using namespace moec::compiler;

/// The kernels keep this besides: the pairs, their order, and maxima.
static constexpr int64_t kStaticBytes = 2048;

static constexpr Measured kMeasured = {"bench/notes/gemv-h100.md",
                                       "2026-11-21"};

/// Best first, for a kernel with two weight rows a result; one with a single
/// row has twice the stages. Less on its way is slower than the kernels for
/// more tokens.
static constexpr GemvSchedule kGemvSchedules[] = {
    {.warps = 16, .stages = 6, .measured = kMeasured},
    {.warps = 16, .stages = 4, .measured = kMeasured},
};

int64_t compiler::sharedBytes(const GemvProblem &problem,
                              const GemvSchedule &schedule) {
  int64_t operand = problem.rows * problem.k * problem.elementBytes;
  if (problem.scaled) {
    int64_t scales = problem.groupScales ? (problem.k + 127) / 128 : 1;
    operand += (problem.rows * scales + 3) / 4 * 16;
  }
  // A weight row of a step: 16 bytes of each lane, and a scale.
  int64_t row = problem.scaled ? 640 : 512;
  return operand + schedule.warps * schedule.stages * problem.parts * row;
}

std::optional<GemvSchedule> compiler::gemvSchedule(const GemvProblem &problem,
                                                   const Hardware &hardware) {
  for (GemvSchedule schedule : kGemvSchedules) {
    schedule.stages *= problem.parts == 1 ? 2 : 1;
    if (sharedBytes(problem, schedule) + kStaticBytes <=
            hardware.sharedPerBlock &&
        schedule.threads() <= hardware.threadsPerSm)
      return schedule;
  }
  return std::nullopt;
}
