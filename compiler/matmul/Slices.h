//===- Slices.h - second matmul fused with the combine ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A slice is 128 columns of the result. One kernel multiplies slice by slice
// and sums each slice over a token's experts while it multiplies the next one
// (templates/moe/matmul/slices/stationary.cuh). It serves token counts whose
// partial sums no longer fit in the L2 cache, but whose intermediate rows still
// fit in the shared memory of all SMs.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_MATMUL_SLICES_H
#define MOEC_COMPILER_MATMUL_SLICES_H

#include "compiler/matmul/CostModel.h"
#include "compiler/matmul/Engine.h"

#include <optional>
#include <vector>

namespace moec::compiler {

/// Words that follow the tile count in memory: one cursor for each of the two
/// matmuls, then two counters for each slice buffer, for up to three buffers.
inline constexpr int64_t kSliceCounters = 2 + 2 * 3;

/// A range of token counts that kernels of slices serve, inclusive.
struct SlicesRange {
  int64_t first = 0, last = 0;
};

/// Returns the ranges for which slices are used for a second matmul, ascending,
/// up to problem.maxTokens. Returns none if slices are not faster or do not
/// fit.
std::vector<SlicesRange> slicesRanges(const MatmulProblem &problem,
                                      const Hardware &hardware);

/// Returns the schedule for up to problem.maxTokens tokens, or nullopt if their
/// rows do not fit. blockRows and blockTokens assume a GPU with at least as
/// many multiprocessors as `hardware`.
std::optional<SlicesSchedule> slicesSchedule(const MatmulProblem &problem,
                                             const Hardware &hardware);

/// Returns the dynamic shared memory of a CTA. It equals the kernel's
/// sharedBytes().
int64_t slicesSharedBytes(const MatmulProblem &problem,
                          const SlicesSchedule &schedule);

/// Estimates the kernel for this distribution of rows.
Cost slicesCost(const MatmulProblem &problem, const SlicesSchedule &schedule,
                const Hardware &hardware, const ExpertRows &rows);

} // namespace moec::compiler

#endif // MOEC_COMPILER_MATMUL_SLICES_H
