//===- Tune.h - measures schedules of a layer on a GPU ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// No IR: the C ABI reads the options from JSON.
//
// For each token count: the compiler's own choice, then the best schedule for
// each size of tiles, then schedules beside the best ones, then what these
// gained together. Each is compared with the reference before it is timed, in
// turns with the compiler's choice. A schedule that is wrong, hangs or ends its
// process is quarantined: its line of the log keeps it from being measured
// again.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_TUNE_TUNE_H
#define MOEC_COMPILER_TUNE_TUNE_H

#include "compiler/CompileOptions.h"
#include "compiler/import/ImportOptions.h"
#include "runtime/support/Result.h"

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>
#include <vector>

namespace moec::compiler {

/// The most seconds of a call and of one measurement, schedules drawn at random
/// and percent of a gain that can be asked for.
inline constexpr double kMostBudget = 30.0 * 24 * 3600;
inline constexpr double kMostDeadline = 24.0 * 3600;
inline constexpr int64_t kMostRandom = 100000;
inline constexpr double kMostGain = 99;

/// A layer is in a file, or it is a text.
struct TuneSource {
  std::string path;
  std::optional<std::string> text;
};

struct TuneOptions {
  TuneSource source;
  ImportOptions import;
  CompileOptions compile;
  std::vector<int64_t> tokens;
  double budget = 60;      ///< seconds of the whole, compiling with it
  bool exhaustive = false; ///< all candidates for all sizes of tiles
  int64_t random = 0;      ///< legal schedules drawn beside them
  uint64_t seed = 1;
  std::string device = "cuda"; ///< or host
  double deadline = 30;        ///< seconds of one measurement
  double minGain = 1;          ///< percent; no rows for less
  int64_t sample = 8;          ///< tokens compared with the reference
  std::string output;          ///< the file of rows; "": the user's store
  std::string log;             ///< "": beside the store
  std::string report;          ///< the caller's file of the numbers; "": none
};

/// Measures and writes; the numbers, which tuneText() prints it for people.
Result<nlohmann::ordered_json> tune(const TuneOptions &options);

std::string tuneText(const nlohmann::ordered_json &report);

} // namespace moec::compiler

#endif // MOEC_COMPILER_TUNE_TUNE_H
