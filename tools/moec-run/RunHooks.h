//===- RunHooks.h - what a program adds to a run ----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// moec-run adds nothing. test/check/ runs many packages beside each other on
// one device, and checks more of each.
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

class RunHooks {
public:
  virtual ~RunHooks() = default;

  /// Lets others have the device; false if it was not held. acquireDevice()
  /// takes it again.
  virtual bool releaseDevice() { return false; }
  virtual void acquireDevice() {}

  /// Called before weights of so many bytes are made, and when they are freed.
  virtual void reserveWeights(int64_t /*bytes*/) {}
  virtual void releaseWeights(int64_t /*bytes*/) {}

  /// Whether the options fit the layer. An error is wrong usage.
  virtual Result<void> checkUsage(const LoadedLayer & /*layer*/) { return {}; }
  /// Called when the weights are packed, `fresh` if in this run. What fails is
  /// a case of the report.
  virtual Result<void> prepare(const HostWeights & /*weights*/,
                               LoadedLayer & /*layer*/, bool /*fresh*/,
                               RunReport & /*report*/) {
    return {};
  }
  /// Whether check() wants to see the cases.
  virtual bool checksCases() const { return false; }
  /// Checks more of a case of some tokens; what fails is noted in the result.
  virtual Result<void> check(const FinishedCase & /*finished*/,
                             CaseResult & /*result*/) {
    return {};
  }
  /// Called after the last case, also after an error.
  virtual void finish() {}
};

/// While it lives, others may use the device.
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
