//===- Search.h - schedules that are worth a measurement ------ -*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The trials of the tuner. Each list is made from the measurements of the lists
// before it. Trials are compared by their ratio to the compiler's choice. Rows
// of an earlier file are measured again and stay only if they are still faster.
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
  double ratio = 0; ///< to the compiler's choice; 0: not measured
  double microseconds = 0, noise = 0;
  bool confirmed = false; ///< its measurement had more rounds
};

/// Reads the measurement of a trial from a line of the log.
void takeLine(const nlohmann::ordered_json &line, Trial &trial);
/// Returns the trial of the least ratio; null if none was measured.
const Trial *fastest(const std::vector<Trial> &trials);
/// The same among trials for which isFaster() is true.
const Trial *fastest(const std::vector<Trial> &trials, double minGain);
/// Returns true if the gain exceeds the noise and minGain percent.
bool isFaster(const Trial &trial, double minGain);
/// Both schedules in words.
std::string words(const SchedulePair &candidate);

/// The best schedules for each size of tiles, best first by the model. That of
/// the choice's size is the choice, where it has schedules.
Result<std::vector<Trial>> centersOf(const TunedInput &input,
                                     const TokenRange &range,
                                     const DefaultChoice &choice);

/// Schedules beside the fastest centers; beside all of them where the options
/// are exhaustive.
std::vector<Trial> besideOf(std::vector<Trial> centers,
                            const TuneOptions &options,
                            const Hardware &hardware, int64_t tokens);

/// The fastest schedules of both matmuls together, as far as they are new.
std::vector<Trial> togetherOf(const std::vector<Trial> &all,
                              const Hardware &hardware, int64_t tokens);

struct EarlierRows {
  std::vector<Trial> trials;
  std::vector<TunedRow> rows; ///< of all trials, with the layer's scheme
  int64_t anyScheme = 0;      ///< how many rows name no scheme
};

/// Returns the pairs of rows of a file that serve the token count of the range;
/// none if the file does not exist.
Result<EarlierRows> earlierRows(const std::string &path,
                                const TunedInput &input,
                                const TokenRange &range);

} // namespace moec::compiler

#endif // MOEC_COMPILER_TUNE_SEARCH_H
