//===- LayerPromises.h - what options of a layer promise --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each is held to its word, in further runs of a case.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_CHECK_LAYERPROMISES_H
#define MOEC_TEST_CHECK_LAYERPROMISES_H

#include "tools/moec-run/RunCase.h"

namespace moec::check {

/// The residual and x may lie where the output goes: the bits must be the same.
Result<void> checkInPlace(const run::FinishedCase &finished,
                          run::CaseResult &result);

/// A batch-invariant layer: runs of some of the tokens, first ones and last
/// ones, must give the bits that the case has for them.
Result<void> checkInvariance(const run::FinishedCase &finished,
                             run::CaseResult &result);

} // namespace moec::check

#endif // MOEC_TEST_CHECK_LAYERPROMISES_H
