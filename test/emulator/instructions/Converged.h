//===- Converged.h - instructions that a whole warp executes ----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The condition of `.aligned`.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_EMULATOR_INSTRUCTIONS_CONVERGED_H
#define MOEC_TEST_EMULATOR_INSTRUCTIONS_CONVERGED_H

#include "test/emulator/machine/Machine.h"

namespace moec::emulator {

/// True if all lanes of the warp that have not exited are here. Else they wait:
/// the others may still come, and if they do not, the report of a deadlock
/// names the places of all.
inline bool isConverged(const Warp &warp, uint32_t lanes) {
  return lanes == warp.live;
}

} // namespace moec::emulator

#endif // MOEC_TEST_EMULATOR_INSTRUCTIONS_CONVERGED_H
