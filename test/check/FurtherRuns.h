//===- FurtherRuns.h - checks that run a case again -------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_CHECK_FURTHERRUNS_H
#define MOEC_TEST_CHECK_FURTHERRUNS_H

#include "test/check/OccupySms.h"
#include "tools/moec-run/RunCase.h"

namespace moec::check {

/// The residual and x may lie where the output goes: the bits must be the same.
Result<void> checkInPlace(const run::FinishedCase &finished,
                          run::CaseResult &result);

/// A batch-invariant layer: runs of some of the tokens, first ones and last
/// ones, must give the bits that the case has for them.
Result<void> checkInvariance(const run::FinishedCase &finished,
                             run::CaseResult &result);

/// The protocol of programmatic launches, seen from outside: kernels that begin
/// before their predecessor has ended must not read what it still writes.
/// Back-to-back runs in one stream, while a kernel holds half of the SMs: the
/// weights are destroyed and packed anew, then runs of `tokens`, of none, of
/// one token and of `tokens`, each beginning before the one before has ended
/// (except the first, which must see the weights). All must give the bits of
/// the case, or else the result fails.
Result<void> runChain(const run::FinishedCase &finished, OccupySms &occupy,
                      run::CaseResult &result);

} // namespace moec::check

#endif // MOEC_TEST_CHECK_FURTHERRUNS_H
