//===- RunCase.h - one token count, run and checked -------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A case is a token count and a routing pattern. It passes when the output is
// within the reference's rules, ids, weights and counts are right, nothing was
// written outside of outputs and workspace, and a second, disturbed run gives
// the same bits.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TOOLS_MOECRUN_RUNCASE_H
#define MOEC_TOOLS_MOECRUN_RUNCASE_H

#include "tools/moec-run/CompareWithReference.h"
#include "tools/moec-run/GivenTensors.h"
#include "tools/moec-run/RunHooks.h"

namespace moec::run {

/// All cases of a run share this.
struct RunSetup {
  RunHooks &hooks;
  const Options &options;
  const HostWeights &weights;
  const GivenTensors &given;
  LoadedLayer &layer;
  /// For packages that run on the same inputs; null: nothing is kept.
  KeptRows *kept = nullptr;
};

/// A case of some tokens that has run, for RunHooks::check.
struct FinishedCase {
  RunSetup &setup;
  int64_t tokens;
  const Precision &precision;
  const HostInputs &inputs;
  const DeviceInputs &device; ///< the same inputs
  /// As the run left them, with "out" where the layer defers it.
  const HostOutputs &outputs;
  /// The same after settleRows.
  const HostOutputs &settled;
};

/// Errors are those of the package or the device; a failed check is a result.
Result<CaseResult> runCase(RunSetup &setup, int64_t tokens,
                           const std::string &pattern);

} // namespace moec::run

#endif // MOEC_TOOLS_MOECRUN_RUNCASE_H
