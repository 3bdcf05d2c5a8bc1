//===- Search.h - schedules that are worth a measurement ------ -*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The trials of the tuner. A trial is a pair of schedules and its measurement.
// Each list of trials is derived from the measurements of earlier lists. Trials
// are compared by their ratio, their time divided by the time of the compiler's
// choice. Rows of an existing file are measured again and kept only if they are
// still faster.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_TUNE_SEARCH_H
#define MOEC_COMPILER_TUNE_SEARCH_H

#include "compiler/tune/Candidates.h"
#include "compiler/tune/TunedInput.h"

namespace moec::compiler {

/// A candidate and its measurement.
struct Trial {
  TunedLayer layer;
  SchedulePair candidate;
  double ratio = 0; ///< time / time of the compiler's choice; 0: not measured
  double microseconds = 0, noise = 0;
  bool confirmed = false; ///< it was measured again with more rounds
};

/// Reads the measurement of a trial from a line of the log.
void takeLine(const nlohmann::ordered_json &line, Trial &trial);
/// Returns the trial with the smallest ratio, or null if none was measured.
const Trial *fastest(const std::vector<Trial> &trials);
/// Like fastest(trials), among the trials for which isFaster() is true.
const Trial *fastest(const std::vector<Trial> &trials, double minGain);
/// Returns true if the gain exceeds the noise and minGain percent.
bool isFaster(const Trial &trial, double minGain);
/// Returns both schedules as text.
std::string words(const SchedulePair &candidate);

/// Returns the best pair of schedules for each tile size, fastest first by the
/// cost model. For the tile size of the compiler's choice, the pair is that
/// choice, if it has schedules that are legal.
Result<std::vector<Trial>> centersOf(const TunedInput &input,
                                     const TokenRange &range,
                                     const DefaultChoice &choice);

/// Returns variations of the fastest centers, or of all centers if the search
/// is exhaustive.
std::vector<Trial> besideOf(std::vector<Trial> centers,
                            const TuneOptions &options,
                            const Hardware &hardware, int64_t tokens);

/// Returns combinations of the fastest schedules of the two matmuls that were
/// not tried yet.
std::vector<Trial> togetherOf(const std::vector<Trial> &all,
                              const Hardware &hardware, int64_t tokens);

struct EarlierRows {
  std::vector<Trial> trials;
  std::vector<TunedRow> rows; ///< rows of all trials with the layer's scheme
  int64_t anyScheme = 0;      ///< number of rows that name no scheme
};

/// Returns the row pairs of a file that apply to the token count of the range.
/// Returns none if the file does not exist.
Result<EarlierRows> earlierRows(const std::string &path,
                                const TunedInput &input,
                                const TokenRange &range);

} // namespace moec::compiler

#endif // MOEC_COMPILER_TUNE_SEARCH_H
