//===- CostModel.h - ranks schedules ----------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A roofline of one kernel: memory, the L2 cache and multiplying overlap, and
// filling the pipelines comes on top. Memory is the bytes of the experts that
// get rows, over what a schedule keeps in flight; multiplying is the rows of
// tiles, over the rate that the engine's file knows. bench/notes/cost-model.md
// has the measurements.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_MATMUL_COSTMODEL_H
#define MOEC_COMPILER_MATMUL_COSTMODEL_H

#include "compiler/matmul/ExpertRows.h"
#include "compiler/matmul/Problem.h"

#include <string_view>
#include <vector>

namespace moec::compiler {

/// Filling the ring and draining the epilogue of one CTA.
inline constexpr double kTileSeconds = 1.0e-6;
/// A kernel that reads 1 MB takes this above bytes / bandwidth.
inline constexpr double kRampSeconds = 1.6e-6;

struct Cost {
  double memorySeconds = 0, l2Seconds = 0, computeSeconds = 0;
  double convertSeconds = 0;  ///< of weights that are stored otherwise
  bool convertsFirst = false; ///< see Engine; else it overlaps
  double fillSeconds = 0;     ///< at the ends of the kernel
  double seconds = 0;
  double bytes = 0; ///< of weights, rows and result, each once
  double flops = 0; ///< without rows behind an expert's end
  /// The part that takes longest: "memory", "l2", "compute", "convert" or
  /// "latency".
  std::string_view bound() const;
  /// Sets `seconds` by the parts.
  void add();
};

/// The kernel of a grouped matmul, in a run with these rows.
Cost estimate(const MatmulProblem &problem, const Schedule &schedule,
              const Hardware &hardware, const ExpertRows &rows);

/// The same where every expert is as likely as any other.
Cost estimate(const MatmulProblem &problem, const Schedule &schedule,
              const Hardware &hardware, int64_t tokens);

/// The best of `schedules` (not empty) over the problem's token range, by the
/// geometric mean of the time at its ends and its middle. Ties go to the
/// earlier one.
Schedule best(const MatmulProblem &problem,
              const std::vector<Schedule> &schedules, const Hardware &hardware);

} // namespace moec::compiler

#endif // MOEC_COMPILER_MATMUL_COSTMODEL_H
