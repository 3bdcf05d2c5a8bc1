//===- Tune.h - measures schedules of a layer -------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Measures schedules of a layer's matmuls. This header does not depend on MLIR,
// because the C ABI reads the options from JSON.
//
// For each token count, the tuner measures the compiler's own choice, then the
// best schedule for each tile size, then variations of the best ones, then
// combinations of the improvements. Each schedule is compared with the
// reference before it is timed, alternating with the compiler's choice. A
// schedule that is wrong, hangs or ends its process is quarantined: its line in
// the log prevents further measurements.
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

/// The largest values that a caller can request: seconds of a call, seconds of
/// one measurement, number of random schedules, and minimum gain in percent.
inline constexpr double kMostBudget = 30.0 * 24 * 3600;
inline constexpr double kMostDeadline = 24.0 * 3600;
inline constexpr int64_t kMostRandom = 100000;
inline constexpr double kMostGain = 99;

/// The layer: a file or a text.
struct TuneSource {
  std::string path;
  std::optional<std::string> text;
};

struct TuneOptions {
  TuneSource source;
  ImportOptions import;
  CompileOptions compile;
  std::vector<int64_t> tokens;
  double budget = 60;      ///< time limit in seconds, including compilation
  bool exhaustive = false; ///< all candidates for all tile sizes
  int64_t random = 0;      ///< additional legal schedules drawn at random
  uint64_t seed = 1;
  std::string device = "cuda"; ///< cuda or host
  double deadline = 30;        ///< time limit of a measurement, in seconds
  double minGain = 1;          ///< minimum gain that yields rows, in percent
  int64_t sample = 8;          ///< number of tokens compared with the reference
  std::string output;          ///< file of rows; "": the user's store
  std::string log;             ///< file of the log; "": in the store
  std::string report;          ///< file for the report; "": none
};

/// Measures schedules and writes rows. Returns the report, which tuneText()
/// formats for people.
Result<nlohmann::ordered_json> tune(const TuneOptions &options);

std::string tuneText(const nlohmann::ordered_json &report);

} // namespace moec::compiler

#endif // MOEC_COMPILER_TUNE_TUNE_H
