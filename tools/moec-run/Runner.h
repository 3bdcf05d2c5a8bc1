//===- Runner.h - runs packages on one device -------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A run covers everything from the package to the report. A loaded package and
// its weights are kept, so that the next run can reuse them.
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

/// Reports an error on stderr and in `report`; returns the exit status.
int refuse(const Options &options, const Error &error, RunReport &report,
           int status = 1);

/// Runs one package after another. Not thread-safe.
class Runner {
public:
  explicit Runner(RunHooks &hooks) : hooks(hooks) {}
  ~Runner() { drop(); }
  Runner(const Runner &) = delete;
  Runner &operator=(const Runner &) = delete;

  /// Runs one package; returns the exit status, which is also in the report.
  int run(const Options &options, RunReport &report);
  /// Frees the package and the weights.
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
  std::unique_ptr<LoadedLayer> layer; ///< null: no package is loaded
  bool weightsSet = false;
  int64_t reserved = 0; ///< bytes reserved for weights
  double weightsTime = 0;
  int64_t checkpointLayer = 0;
  std::map<std::string, std::string> digests;
};

/// Compiles kernels into the cache: for `options.arch`, or for all targets.
int prebuild(const Options &options, RunReport &report);

} // namespace moec::run

#endif // MOEC_TOOLS_MOECRUN_RUNNER_H
