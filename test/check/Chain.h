//===- Chain.h - runs behind each other without a wait ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The protocol of programmatic launches, seen from outside: kernels that begin
// before their predecessor has ended must not read what it still writes.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_CHECK_CHAIN_H
#define MOEC_TEST_CHECK_CHAIN_H

#include "test/check/OccupySms.h"
#include "tools/moec-run/RunCase.h"

namespace moec::check {

/// Behind each other in one stream, while a kernel holds half of the SMs: the
/// weights are destroyed and packed anew, then runs of `tokens`, of none, of
/// one token and of `tokens`, each beginning before the one before has ended
/// (but the first, which must see the weights). All must give the bits of
/// the case, or else the result fails.
Result<void> runChain(const run::FinishedCase &finished, OccupySms &occupy,
                      run::CaseResult &result);

} // namespace moec::check

#endif // MOEC_TEST_CHECK_CHAIN_H
