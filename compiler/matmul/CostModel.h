//===- CostModel.h - ranks schedules by predicted time ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A roofline model of one kernel. Memory, L2 cache and arithmetic overlap; the
// time to fill the pipelines is added. The memory time follows from the bytes
// of the experts that get rows and from the bytes in flight of the schedule.
// The compute time follows from the rows of all tiles, including padding, and
// the engine's rate. The measurements are in bench/notes/cost-model.md.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_MATMUL_COSTMODEL_H
#define MOEC_COMPILER_MATMUL_COSTMODEL_H

#include "compiler/matmul/ExpertRows.h"
#include "compiler/matmul/Problem.h"

#include <string_view>
#include <vector>

namespace moec::compiler {

/// Time to fill the pipeline stages and to drain the epilogue of one CTA.
inline constexpr double kTileSeconds = 1.0e-6;
/// Time of a kernel that reads 1 MB in excess of bytes / bandwidth.
inline constexpr double kRampSeconds = 1.6e-6;

struct Cost {
  double memorySeconds = 0, l2Seconds = 0, computeSeconds = 0;
  double convertSeconds = 0;  ///< to convert weights to operands
  bool convertsFirst = false; ///< see Engine; if false, it overlaps
  double fillSeconds = 0;     ///< startup and tail of the kernel
  double seconds = 0;
  double bytes = 0; ///< weights, rows and result, each counted once
  double flops = 0; ///< without the padding of tiles
  /// Returns the longest part: "memory", "l2", "compute", "convert" or
  /// "latency".
  std::string_view bound() const;
  /// Sets `seconds` from the parts.
  void add();
};

/// Estimates the kernel of a grouped matmul for this distribution of rows.
Cost estimate(const MatmulProblem &problem, const Schedule &schedule,
              const Hardware &hardware, const ExpertRows &rows);

/// Estimates a run of `tokens` tokens in which all experts are equally likely.
Cost estimate(const MatmulProblem &problem, const Schedule &schedule,
              const Hardware &hardware, int64_t tokens);

/// Returns the best of `schedules` (not empty) for the problem's token range.
/// The criterion is the geometric mean of the times at the smallest, middle and
/// largest token count. On a tie the earlier schedule is returned.
Schedule best(const MatmulProblem &problem,
              const std::vector<Schedule> &schedules, const Hardware &hardware);

} // namespace moec::compiler

#endif // MOEC_COMPILER_MATMUL_COSTMODEL_H
