//===- Mbarrier.h - mbarriers -----------------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Arrivals, transactions and phases.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_EMULATOR_INSTRUCTIONS_MBARRIER_H
#define MOEC_TEST_EMULATOR_INSTRUCTIONS_MBARRIER_H

#include "test/emulator/machine/Machine.h"

namespace moec::emulator {

/// The mbarrier at a shared address and its CTA; reports and returns null if
/// none was initialized there.
Mbarrier *findMbarrier(Warp &warp, const Inst &inst, unsigned lane,
                       uint32_t address, Cta **of);

/// `count` arrivals; `what` is what those know that arrive.
void arriveAt(Warp &warp, const Inst &inst, Cta &cta, Mbarrier &mbarrier,
              uint32_t count, const Clocks &what);
/// `bytes` that were expected have come.
void completeBytes(Cta &cta, Mbarrier &mbarrier, int64_t bytes);

/// Who writes asynchronously, as clocks of the CTA name it.
inline uint32_t writerOf(const Cta &cta, const Mbarrier &mbarrier) {
  return cta.threads + mbarrier.slot;
}

} // namespace moec::emulator

#endif // MOEC_TEST_EMULATOR_INSTRUCTIONS_MBARRIER_H
