//===- Candidates.h - schedules that a tuner tries ------------ -*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lists the schedules of both matmuls that a tuner tries for a token count,
// most promising first. This code does not depend on MLIR and accesses no
// files.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_TUNE_CANDIDATES_H
#define MOEC_COMPILER_TUNE_CANDIDATES_H

#include "compiler/matmul/Engine.h"

#include <nlohmann/json_fwd.hpp>

#include <vector>

namespace moec::compiler {

/// A layer's two matmul problems with one tile size, and their engines.
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

/// Returns all schedules to try for one matmul, fastest first by the cost
/// model. These are the engines' good schedules, variations of their group size
/// (Schedule::groupM), the engines' candidates, and `random` legal schedules
/// drawn at random.
std::vector<Schedule> schedulesOf(const MatmulProblem &problem,
                                  const Engines &engines,
                                  const Hardware &hardware, int64_t tokens,
                                  int64_t random, uint64_t seed);

/// Returns the schedule that the compiler chooses without measured schedules: a
/// known good schedule of the engines, or else the best legal schedule by the
/// cost model. Returns nullopt if no schedule is legal.
std::optional<Schedule> centerOf(const MatmulProblem &problem,
                                 const Engines &engines,
                                 const Hardware &hardware);

/// Returns schedule pairs that differ from `center` in one schedule only,
/// ordered by the cost model's prediction, fastest first.
std::vector<SchedulePair> variationsOf(const TunedLayer &layer,
                                       const SchedulePair &center,
                                       const Hardware &hardware, int64_t tokens,
                                       int64_t random, uint64_t seed);

/// Returns the pair of schedules with the time that the cost model predicts.
SchedulePair predict(const TunedLayer &layer, const Schedule &first,
                     const Schedule &second, const Hardware &hardware,
                     int64_t tokens);

/// Returns the numbers of tile rows in the rules of these engines, in ascending
/// order.
std::vector<int64_t> tileRowsOf(const Engines &engines, int64_t elementBytes);

/// Returns the parameters of a matmul problem for the log. A cost model can be
/// fitted to such logs.
nlohmann::ordered_json problemJson(const MatmulProblem &problem);

/// A range of token counts for which a measurement at `tokens` is
/// representative: a factor of sqrt(2) to both sides, but at most up to the
/// geometric mean of neighbors. No range crosses `border`, because kernels are
/// fused in another way above `border`.
struct TokenRange {
  int64_t tokens = 0, first = 0, last = 0;
};
std::vector<TokenRange> rangesAround(std::vector<int64_t> tokens,
                                     int64_t maxTokens, int64_t border);

} // namespace moec::compiler

#endif // MOEC_COMPILER_TUNE_CANDIDATES_H
