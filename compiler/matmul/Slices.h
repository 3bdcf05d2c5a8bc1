//===- Slices.h - second matmul fused with the combine ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A slice is 128 columns of the result. One kernel multiplies slice by slice.
// While it multiplies a slice, it sums the previous slice over each token's
// experts (templates/moe/matmul/slices/stationary.cuh). The kernel is used for
// token counts whose partial sums no longer fit in the L2 cache, but whose
// intermediate rows still fit in the shared memory of all SMs together.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_MATMUL_SLICES_H
#define MOEC_COMPILER_MATMUL_SLICES_H

#include "compiler/matmul/CostModel.h"
#include "compiler/matmul/Engine.h"

#include <optional>
#include <vector>

namespace moec::compiler {

/// Number of words that follow the tile count in memory: one tile cursor for
/// each of the two matmuls, then two counters for each of up to three slice
/// buffers.
inline constexpr int64_t kSliceCounters = 2 + 2 * 3;

/// A range of token counts for which slices are used, inclusive.
struct SlicesRange {
  int64_t first = 0, last = 0;
};

/// Returns the ranges of token counts up to problem.maxTokens for which a
/// second matmul uses slices, ascending. Returns an empty list if slices are
/// not faster or do not fit.
std::vector<SlicesRange> slicesRanges(const MatmulProblem &problem,
                                      const Hardware &hardware);

/// Returns the schedule for up to problem.maxTokens tokens, or nullopt if their
/// rows do not fit in shared memory. blockRows and blockTokens are valid for
/// GPUs with at least as many SMs as `hardware`.
std::optional<SlicesSchedule> slicesSchedule(const MatmulProblem &problem,
                                             const Hardware &hardware);

/// Returns the dynamic shared memory per CTA in bytes. It equals the kernel's
/// sharedBytes().
int64_t slicesSharedBytes(const MatmulProblem &problem,
                          const SlicesSchedule &schedule);

/// Estimates the kernel's time for the distribution `rows`.
Cost slicesCost(const MatmulProblem &problem, const SlicesSchedule &schedule,
                const Hardware &hardware, const ExpertRows &rows);

} // namespace moec::compiler

#endif // MOEC_COMPILER_MATMUL_SLICES_H
