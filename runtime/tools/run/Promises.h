//===- Promises.h - what options of a layer promise -------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A layer that defers its finalization leaves the last step to the caller, who
// is this here. A batch-invariant one is held to its word: parts of a batch
// must give the bits of the whole.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_TOOLS_RUN_PROMISES_H
#define MOEC_RUNTIME_TOOLS_RUN_PROMISES_H

#include "runtime/tools/run/Place.h"

namespace moec::run {

/// Makes "out" of "partials", "positions" and "weights" where a layer defers
/// that: sums in f32 in the order of k, rounded once.
void finishDeferred(const reference::Layer &layer, int64_t tokens,
                    HostOutputs &outputs);

/// The residual and x may lie where the output goes: the bits must be the same.
Result<void> checkInPlace(Bench &bench, const DeviceInputs &inputs,
                          const HostOutputs &first, int64_t tokens,
                          CaseResult &result);

/// Runs of some of the tokens, first ones and last ones, must give the bits
/// that `whole` (finished) has for them, or else the result fails.
Result<void> checkInvariance(Bench &bench, const DeviceInputs &inputs,
                             const HostOutputs &whole, int64_t tokens,
                             CaseResult &result);

} // namespace moec::run

#endif // MOEC_RUNTIME_TOOLS_RUN_PROMISES_H
