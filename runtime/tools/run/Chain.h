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

#ifndef MOEC_RUNTIME_TOOLS_RUN_CHAIN_H
#define MOEC_RUNTIME_TOOLS_RUN_CHAIN_H

#include "runtime/tools/run/Place.h"

namespace moec::run {

/// Behind each other in one stream, while a kernel holds half of the SMs: the
/// weights are destroyed and packed anew, then runs of `tokens`, of none, of
/// one token and of `tokens`, each beginning before the one before has ended
/// (but the first, which must see the weights). All must give the bits of
/// `first`, or else the result fails.
Result<void> runChain(Bench &bench, const DeviceInputs &inputs,
                      const HostOutputs &first, int64_t tokens,
                      CaseResult &result);

} // namespace moec::run

#endif // MOEC_RUNTIME_TOOLS_RUN_CHAIN_H
