//===- Runner.h - one package after the other on one machine ----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a run asks for, from the package to the report. What the next one can
// use again, a loaded package with its weights, stays until then.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_TOOLS_RUN_RUNNER_H
#define MOEC_RUNTIME_TOOLS_RUN_RUNNER_H

#include "runtime/tools/run/Report.h"
#include "runtime/tools/run/Turn.h"

#include <memory>

namespace moec::run {

/// What a run is refused or ended by, on stderr and in the report; its status.
int refuse(const Error &error, RunReport &report, int status = 1);

/// Belongs to one thread, which has the turn in every call; also when this is
/// destroyed.
class Runner {
public:
  /// `gate` counts the bytes of weights; null where nothing runs beside.
  Runner(Turn &turn, MemoryGate *gate) : turn(turn), gate(gate) {}
  ~Runner() { drop(); }

  /// The exit status, which is the report's too.
  int run(const Options &options, RunReport &report);
  /// Frees package and weights.
  void drop();

private:
  Result<void> prepare(const Options &options, RunReport &report);
  Result<void> loadCheckpoint(const Options &options);
  Result<void> runCases(const Options &options, RunReport &report);

  Turn &turn;
  MemoryGate *gate;
  std::unique_ptr<Machine> machine;
  Options preparedFor;
  HostWeights weights;
  std::unique_ptr<Session> session; ///< null: nothing is prepared
  bool weightsSet = false;
  int64_t counted = 0; ///< bytes, at the gate
  double weightsTime = 0;
  int64_t checkpointLayer = 0;
  std::map<std::string, std::string> digests;
};

} // namespace moec::run

#endif // MOEC_RUNTIME_TOOLS_RUN_RUNNER_H
