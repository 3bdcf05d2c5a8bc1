//===- RunHooks.h - extensions of a run -------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// moec-run uses the defaults. test/check/ runs many packages on one device at
// the same time, and performs more checks of each package.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TOOLS_MOECRUN_RUNHOOKS_H
#define MOEC_TOOLS_MOECRUN_RUNHOOKS_H

#include "runtime/support/Result.h"

#include <cstdint>

namespace moec::run {

struct CaseResult;
struct FinishedCase;
struct HostWeights;
struct Options;
struct RunReport;
class LoadedLayer;

/// Callbacks that a program may override.
class RunHooks {
public:
  virtual ~RunHooks() = default;

  /// Releases the device for other runs; returns false if it was not held.
  /// acquireDevice() acquires it again.
  virtual bool releaseDevice() { return false; }
  virtual void acquireDevice() {}

  /// Called before weights of the given size are created, and when they are
  /// freed.
  virtual void reserveWeights(int64_t /*bytes*/) {}
  virtual void releaseWeights(int64_t /*bytes*/) {}

  /// Checks that the options fit the layer. An error is a usage error.
  virtual Result<void> checkUsage(const LoadedLayer & /*layer*/) { return {}; }
  /// Called when the weights are packed. `fresh`: they were packed in this run.
  /// Failures are added to the report as cases.
  virtual Result<void> prepare(const HostWeights & /*weights*/,
                               LoadedLayer & /*layer*/, bool /*fresh*/,
                               RunReport & /*report*/) {
    return {};
  }
  /// Returns true if check() must be called for each case.
  virtual bool checksCases() const { return false; }
  /// Performs further checks of a case with tokens, and stores failures in the
  /// result.
  virtual Result<void> check(const FinishedCase & /*finished*/,
                             CaseResult & /*result*/) {
    return {};
  }
  /// Called after the last case, also after an error.
  virtual void finish() {}
};

/// Releases the device for other runs during its lifetime.
class HostWork {
public:
  explicit HostWork(RunHooks &hooks)
      : hooks(hooks), released(hooks.releaseDevice()) {}
  ~HostWork() {
    if (released)
      hooks.acquireDevice();
  }
  HostWork(const HostWork &) = delete;
  HostWork &operator=(const HostWork &) = delete;

private:
  RunHooks &hooks;
  bool released;
};

} // namespace moec::run

#endif // MOEC_TOOLS_MOECRUN_RUNHOOKS_H
