//===- Runner.h - one package after the other on one device -----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A run goes from the package to the report. A loaded package and its weights
// stay for the next run, which may use them again.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TOOLS_MOECRUN_RUNNER_H
#define MOEC_TOOLS_MOECRUN_RUNNER_H

#include "tools/moec-run/GivenTensors.h"
#include "tools/moec-run/Report.h"
#include "tools/moec-run/RunHooks.h"

#include <memory>
#include <optional>

namespace moec::run {

/// Says an error on stderr and in the report; returns the status.
int refuse(const Options &options, const Error &error, RunReport &report,
           int status = 1);

/// Belongs to one thread.
class Runner {
public:
  explicit Runner(RunHooks &hooks) : hooks(hooks) {}
  ~Runner() { drop(); }
  Runner(const Runner &) = delete;
  Runner &operator=(const Runner &) = delete;

  /// The exit status, which is the report's too.
  int run(const Options &options, RunReport &report);
  /// Frees package and weights.
  void drop();

private:
  Result<void> load(const Options &options, RunReport &report);
  Result<void> makeWeights(const Options &options);
  Result<void> loadCheckpoint(const Options &options);
  Result<void> runCases(const Options &options, RunReport &report);

  RunHooks &hooks;
  std::optional<tools::Device> device;
  Options loadedFor;
  GivenTensors given;
  HostWeights weights;
  std::unique_ptr<LoadedLayer> layer; ///< null: nothing is loaded
  bool weightsSet = false;
  int64_t reserved = 0; ///< bytes of weights
  double weightsTime = 0;
  int64_t checkpointLayer = 0;
  std::map<std::string, std::string> digests;
};

/// Compiles into the cache: the target asked for, or all of them.
int prebuild(const Options &options, RunReport &report);

} // namespace moec::run

#endif // MOEC_TOOLS_MOECRUN_RUNNER_H
