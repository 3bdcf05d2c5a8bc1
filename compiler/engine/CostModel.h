//===- CostModel.h - ranks schedules ----------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A small roofline model: time of memory, by the bytes of the experts that a
// token count touches and the bytes that a schedule keeps in flight, against
// time of computing, by tiles, waves and the efficiency of a warp's tile.
// It ranks candidates; it does not predict.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_ENGINE_COSTMODEL_H
#define MOEC_COMPILER_ENGINE_COSTMODEL_H

#include "compiler/engine/Problem.h"

#include <vector>

namespace moec::compiler {

/// Filling the ring and draining the epilogue of one CTA.
inline constexpr double kTileSeconds = 1.0e-6;

struct Cost {
  double memorySeconds = 0;
  double computeSeconds = 0;
  double seconds = 0; ///< what ranks
};

/// Experts of this rank that get a row when `tokens` route uniformly.
double touchedExperts(const MatmulProblem &problem, int64_t tokens);

/// M tiles over all experts of this rank under uniform routing.
double expectedTiles(const MatmulProblem &problem, int64_t tokens);

Cost estimate(const MatmulProblem &problem, const Schedule &schedule,
              const Hardware &hardware, int64_t tokens);

/// The best of `schedules` (not empty) over the problem's token range, by the
/// geometric mean of the time at its ends and its middle. Ties go to the
/// earlier one.
Schedule best(const MatmulProblem &problem,
              const std::vector<Schedule> &schedules, const Hardware &hardware);

} // namespace moec::compiler

#endif // MOEC_COMPILER_ENGINE_COSTMODEL_H
