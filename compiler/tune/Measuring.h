//===- Measuring.h - jobs for the process that measures ------- -*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Starts the process, has it make the layer's weights, and starts another one
// where it has ended. Says whether a package is bad or the machine was.
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
  /// The machine failed, not the package: it is out of memory, say.
  bool transient = false;
  /// Times if ok, else "kind" and "text".
  BoxedOrderedJson answer;
};

/// Whether the same may come out well on a second try: the machine failed, and
/// nothing is said of what was compiled.
bool isTransient(const Error &error);

class Measuring {
public:
  /// Errors that the process prints go to a file in the folder.
  Measuring(const TuneOptions &options, std::string program,
            const std::string &folder);

  Result<void> start();
  /// The device's name, "" before the start.
  std::string device() const { return process ? process->deviceName() : ""; }
  /// The package of the compiler's choice, with which others take turns.
  void setBaseline(const std::string &folder) { baseline = folder; }
  /// Hands over a package. A transient failure has a second try. An error where
  /// the compiler's choice cannot be measured.
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
  bool warm = false; ///< the process has the layer's weights
};

} // namespace moec::compiler

#endif // MOEC_COMPILER_TUNE_MEASURING_H
