//===- RunCase.h - runs and checks one case ---------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A case is a token count and a routing pattern. It passes if all of the
// following hold: the output satisfies the reference's rules; ids, weights and
// counts are correct; nothing outside of outputs and workspace was written; a
// second run under disturbance is bitwise identical.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TOOLS_MOECRUN_RUNCASE_H
#define MOEC_TOOLS_MOECRUN_RUNCASE_H

#include "tools/moec-run/CompareWithReference.h"
#include "tools/moec-run/GivenTensors.h"
#include "tools/moec-run/RunHooks.h"

namespace moec::run {

/// The objects that all cases of a run share.
struct RunSetup {
  RunHooks &hooks;
  const Options &options;
  const HostWeights &weights;
  const GivenTensors &given;
  LoadedLayer &layer;
  /// The reference's rows, for packages that run on the same inputs; null: not
  /// kept.
  KeptRows *kept = nullptr;
};

/// A case with at least one token that has run, for RunHooks::check().
struct FinishedCase {
  RunSetup &setup;
  int64_t tokens;
  const Precision &precision;
  const HostInputs &inputs;
  const DeviceInputs &device; ///< the same inputs on the device
  /// The outputs as the run wrote them. If the layer leaves the weighted sum to
  /// its caller, finishDeferred() has added "out".
  const HostOutputs &outputs;
  /// The outputs after settleRows().
  const HostOutputs &settled;
};

/// Runs one case. An error comes from the package or the device; a failed check
/// is part of the result.
Result<CaseResult> runCase(RunSetup &setup, int64_t tokens,
                           const std::string &pattern);

} // namespace moec::run

#endif // MOEC_TOOLS_MOECRUN_RUNCASE_H
