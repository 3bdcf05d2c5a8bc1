//===- Candidates.h - schedules that a tuner tries ------------ -*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The schedules of both matmuls for some token counts, in the order in which
// they are worth measuring. Independent of MLIR, without file access.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_TUNE_CANDIDATES_H
#define MOEC_COMPILER_TUNE_CANDIDATES_H

#include "compiler/matmul/Engine.h"

#include <nlohmann/json_fwd.hpp>

#include <vector>

namespace moec::compiler {

/// The two matmuls of the layer with one tile size.
struct TunedLayer {
  MatmulProblem first, second;
  Engines engines, secondEngines; ///< in order of preference
};

/// One schedule for each of the two matmuls.
struct SchedulePair {
  Schedule first, second;
  double predicted = 0; ///< seconds according to the cost model
  bool operator==(const SchedulePair &other) const {
    return first == other.first && second == other.second;
  }
};

/// Returns all schedules to try for one matmul, in the order of the cost model.
/// These are the engines' good schedules, variations of their `group`, the
/// engines' candidates, and `random` legal schedules drawn at random.
std::vector<Schedule> schedulesOf(const MatmulProblem &problem,
                                  const Engines &engines,
                                  const Hardware &hardware, int64_t tokens,
                                  int64_t random, uint64_t seed);

/// Returns the compiler's choice without measured schedules, or the best one by
/// the cost model if no engine has a known good one. Returns nullopt if no
/// schedule is legal.
std::optional<Schedule> centerOf(const MatmulProblem &problem,
                                 const Engines &engines,
                                 const Hardware &hardware);

/// Returns pairs in which one of the two schedules is that of the center, best
/// first.
std::vector<SchedulePair> variationsOf(const TunedLayer &layer,
                                       const SchedulePair &center,
                                       const Hardware &hardware, int64_t tokens,
                                       int64_t random, uint64_t seed);

/// Returns the pair of schedules with the time that the cost model predicts.
SchedulePair predict(const TunedLayer &layer, const Schedule &first,
                     const Schedule &second, const Hardware &hardware,
                     int64_t tokens);

/// Returns the row counts of tiles in the rules of these engines, in ascending
/// order.
std::vector<int64_t> tileRowsOf(const Engines &engines, int64_t elementBytes);

/// Returns the facts of a problem, for logs to which a model is fitted.
nlohmann::ordered_json problemJson(const MatmulProblem &problem);

/// A range of token counts for which a measurement at `tokens` is
/// representative: half an octave to both sides, up to the middle between
/// neighbors. No range crosses `border`, up to which kernels are fused in
/// another way.
struct TokenRange {
  int64_t tokens = 0, first = 0, last = 0;
};
std::vector<TokenRange> rangesAround(std::vector<int64_t> tokens,
                                     int64_t maxTokens, int64_t border);

} // namespace moec::compiler

#endif // MOEC_COMPILER_TUNE_CANDIDATES_H
