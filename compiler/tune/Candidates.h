//===- Candidates.h - schedules that a tuner tries ------------ -*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The schedules of both matmuls for some token counts, and the order in which
// they are worth a measurement. No IR and no files.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_TUNE_CANDIDATES_H
#define MOEC_COMPILER_TUNE_CANDIDATES_H

#include "compiler/matmul/Engine.h"

#include <nlohmann/json_fwd.hpp>

#include <vector>

namespace moec::compiler {

/// Both matmuls of the layer with tiles of one size.
struct TunedLayer {
  MatmulProblem first, second;
  Engines engines, secondEngines; ///< the preferred one first
};

/// A schedule for each of them.
struct SchedulePair {
  Schedule first, second;
  double predicted = 0; ///< seconds, by the cost model
  bool operator==(const SchedulePair &other) const {
    return first == other.first && second == other.second;
  }
};

/// All schedules that a tuner tries for one matmul, best first by the model:
/// the engines' good ones, those with other groups beside them, their
/// candidates, and so many legal ones drawn at random.
std::vector<Schedule> schedulesOf(const MatmulProblem &problem,
                                  const Engines &engines,
                                  const Hardware &hardware, int64_t tokens,
                                  int64_t random, uint64_t seed);

/// The compiler's choice without measured schedules, or the best by the model
/// where an engine knows no good one; none where no schedule is legal.
std::optional<Schedule> centerOf(const MatmulProblem &problem,
                                 const Engines &engines,
                                 const Hardware &hardware);

/// Pairs of which one matmul's schedule is the center's, best first.
std::vector<SchedulePair> variationsOf(const TunedLayer &layer,
                                       const SchedulePair &center,
                                       const Hardware &hardware, int64_t tokens,
                                       int64_t random, uint64_t seed);

/// A candidate with the model's time for it.
SchedulePair predict(const TunedLayer &layer, const Schedule &first,
                     const Schedule &second, const Hardware &hardware,
                     int64_t tokens);

/// The row counts of tiles that rules of these engines have, ascending.
std::vector<int64_t> tileRowsOf(const Engines &engines, int64_t elementBytes);

/// The facts of a problem, for logs that a model is fitted to.
nlohmann::ordered_json problemJson(const MatmulProblem &problem);

/// Token counts around each of `tokens` that a measurement speaks for: half an
/// octave to both sides, up to the middle between neighbours. None crosses
/// `border`, up to which kernels are formed in another way.
struct TokenRange {
  int64_t tokens = 0, first = 0, last = 0;
};
std::vector<TokenRange> rangesAround(std::vector<int64_t> tokens,
                                     int64_t maxTokens, int64_t border);

} // namespace moec::compiler

#endif // MOEC_COMPILER_TUNE_CANDIDATES_H
