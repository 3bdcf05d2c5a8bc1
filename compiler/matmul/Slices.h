//===- Slices.h - second matmul and combine by one kernel -------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Between the token counts whose partial sums outgrow the L2 and those whose
// intermediate rows outgrow the shared memory of a GPU, one kernel makes the
// result in slices of columns and sums a slice while it multiplies the next
// (templates/moe/matmul/slices/stationary.cuh).
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_MATMUL_SLICES_H
#define MOEC_COMPILER_MATMUL_SLICES_H

#include "compiler/matmul/CostModel.h"
#include "compiler/matmul/Engine.h"

#include <optional>
#include <vector>

namespace moec::compiler {

/// Words behind the number of tiles: a cursor for each of both matmuls, then
/// two counters for each buffer of a schedule with the most of them.
inline constexpr int64_t kSliceCounters = 2 + 2 * 3;

/// The token counts that a schedule of slices serves.
struct SlicesRange {
  int64_t first = 0, last = 0;
};

/// The ranges of a second matmul (n columns of the result, k of lhs, sorted
/// rows of `pairs` for each token of up to maxTokens), ascending; empty where
/// slices do not pay or do not fit.
std::vector<SlicesRange> slicesRanges(const MatmulProblem &problem,
                                      const Hardware &hardware);

/// The schedule for up to problem.maxTokens tokens; none where their rows do
/// not fit. Its blockRows and blockTokens are those of a GPU with at least so
/// many multiprocessors as this one.
std::optional<SlicesSchedule> slicesSchedule(const MatmulProblem &problem,
                                             const Hardware &hardware);

/// Dynamic shared memory; what the kernel's sharedBytes() says.
int64_t slicesSharedBytes(const MatmulProblem &problem,
                          const SlicesSchedule &schedule);

/// The time of the kernel, for a run with these rows.
Cost slicesCost(const MatmulProblem &problem, const SlicesSchedule &schedule,
                const Hardware &hardware, const ExpertRows &rows);

} // namespace moec::compiler

#endif // MOEC_COMPILER_MATMUL_SLICES_H
