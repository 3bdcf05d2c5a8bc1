//===- Measuring.h - jobs for the process that measures ------- -*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Starts the measuring process, lets it create the layer's weights, and
// restarts it if it has ended. Distinguishes a bad package from a failure of
// the machine.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_TUNE_MEASURING_H
#define MOEC_COMPILER_TUNE_MEASURING_H

#include "compiler/tune/MeasuringProcess.h"
#include "compiler/tune/Tune.h"

#include <optional>

namespace moec::compiler {

/// The result of a job.
struct JobOutcome {
  bool ok = false;
  /// True if the machine failed, not the package. For example, it is out of
  /// memory.
  bool transient = false;
  /// Times if `ok`, else "kind" and "text".
  BoxedOrderedJson answer;
};

/// Returns true if a second try may succeed: the machine failed, and the error
/// does not concern the compiled package.
bool isTransient(const Error &error);

class Measuring {
public:
  /// Errors that the process prints go to a file in `folder`.
  Measuring(const TuneOptions &options, std::string program,
            const std::string &folder);

  Result<void> start();
  /// Returns the device's name, or "" before start().
  std::string device() const { return process ? process->deviceName() : ""; }
  /// Sets the baseline, the package with the compiler's choice of schedules.
  /// Measurements alternate between the baseline and another package.
  void setBaseline(const std::string &folder) { baseline = folder; }
  /// Measures a package. A transient failure is retried once. Returns an error
  /// if the baseline cannot be measured.
  Result<JobOutcome> measure(const std::string &folder, int64_t tokens,
                             int rounds, double worse);

private:
  nlohmann::ordered_json jobOf(const std::string &package, int64_t tokens,
                               int rounds, double worse) const;
  Result<void> warmUp(int64_t tokens);
  Result<JobOutcome> once(const std::string &folder, int64_t tokens, int rounds,
                          double worse);
  void end();
  size_t printed() const;
  std::string errorsSince(size_t offset) const;

  const TuneOptions &options;
  std::string program, errorFile, baseline;
  std::optional<MeasuringProcess> process;
  bool warm = false; ///< the process has created the layer's weights
};

} // namespace moec::compiler

#endif // MOEC_COMPILER_TUNE_MEASURING_H
