//===- CostModel.h - ranks schedules by predicted time ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A roofline model of one kernel. It computes three times that overlap: memory,
// L2 cache and arithmetic. The memory time follows from the bytes that are read
// for the experts with rows, and from the bytes that the schedule keeps in
// flight. The compute time follows from the rows in all tiles, including
// padding, and from the engine's rate. The time to fill the pipelines is added.
// bench/notes/cost-model.md has the measurements.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_MATMUL_COSTMODEL_H
#define MOEC_COMPILER_MATMUL_COSTMODEL_H

#include "compiler/matmul/ExpertRows.h"
#include "compiler/matmul/Problem.h"

#include <string_view>
#include <vector>

namespace moec::compiler {

/// The part of a CTA's time that overlaps with no other work: filling the
/// pipeline stages and draining the epilogue.
inline constexpr double kTileSeconds = 1.0e-6;
/// Time of a kernel that reads 1 MB, minus bytes / bandwidth.
inline constexpr double kRampSeconds = 1.6e-6;

struct Cost {
  double memorySeconds = 0, l2Seconds = 0, computeSeconds = 0;
  double convertSeconds = 0; ///< time to convert weights to MMA operands
  /// See Engine::convertsFirst(); if false, the conversion overlaps with the
  /// MMAs.
  bool convertsFirst = false;
  double fillSeconds = 0; ///< startup and tail of the kernel
  double seconds = 0;
  double bytes = 0; ///< weights, lhs rows and result, each counted once
  double flops = 0; ///< without padding rows
  /// Returns the name of the longest part: "memory", "l2", "compute", "convert"
  /// or "latency".
  std::string_view bound() const;
  /// Computes `seconds` from the parts.
  void add();
};

/// Estimates the time of a grouped matmul kernel for the distribution `rows`.
Cost estimate(const MatmulProblem &problem, const Schedule &schedule,
              const Hardware &hardware, const ExpertRows &rows);

/// Estimates the time for a run of `tokens` tokens that choose every expert
/// with the same probability.
Cost estimate(const MatmulProblem &problem, const Schedule &schedule,
              const Hardware &hardware, int64_t tokens);

/// Returns the fastest of `schedules` (not empty) for the problem's token
/// range. The criterion is the geometric mean of the estimated times at the
/// smallest, middle and largest token count. On a tie the earlier schedule is
/// returned.
Schedule best(const MatmulProblem &problem,
              const std::vector<Schedule> &schedules, const Hardware &hardware);

} // namespace moec::compiler

#endif // MOEC_COMPILER_MATMUL_COSTMODEL_H
