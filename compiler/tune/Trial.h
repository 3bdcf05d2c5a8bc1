//===- Trial.h - a candidate and its measurement -------------- -*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Trials are compared by their ratio to the compiler's choice.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_TUNE_TRIAL_H
#define MOEC_COMPILER_TUNE_TRIAL_H

#include "compiler/tune/Candidates.h"

namespace moec::compiler {

/// A candidate in tiles of some size.
struct Trial {
  TunedLayer layer;
  SchedulePair candidate;
  double ratio = 0; ///< to the compiler's choice; 0: not measured
  double microseconds = 0, noise = 0;
  bool confirmed = false; ///< its measurement had more rounds
};

/// Takes over the measurement that a line of the log says.
void takeLine(const nlohmann::ordered_json &line, Trial &trial);
/// The one of the least ratio; null where none was measured.
const Trial *fastest(const std::vector<Trial> &trials);
/// The same of those that isFaster() says.
const Trial *fastest(const std::vector<Trial> &trials, double minGain);
/// Whether its gain is more than noise, and more than so many percent.
bool isFaster(const Trial &trial, double minGain);
/// Both schedules for people.
std::string words(const SchedulePair &candidate);

} // namespace moec::compiler

#endif // MOEC_COMPILER_TUNE_TRIAL_H
