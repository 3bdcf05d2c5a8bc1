//===- Ordering.cpp - memory order of strong accesses ---------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Acquires and releases by flags in memory, as the checkers follow them.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/machine/Ordering.h"

using namespace moec::emulator;

Space moec::emulator::spaceOf(const NameParts &name) {
  if (name.has("shared") || name.has("shared::cta") ||
      name.has("shared::cluster"))
    return Space::Shared;
  if (name.has("param"))
    return Space::Param;
  return name.has("global") ? Space::Global : Space::Generic;
}

Order moec::emulator::orderOf(const NameParts &name) {
  return name.has("acq_rel")                           ? Order::AcquireRelease
         : name.has("acquire")                         ? Order::Acquire
         : name.has("release")                         ? Order::Release
         : name.has("relaxed") || name.has("volatile") ? Order::Relaxed
                                                       : Order::Weak;
}

/// Shared memory of different CTAs must not share a variable.
static uint64_t keyOf(Warp &warp, const Inst &inst, uint64_t address) {
  if (inst.space == Space::Shared || isSharedWindow(address)) {
    Cta *cta = warp.cta.peer(uint32_t(address) >> kRankShift);
    return kSharedWindow | (cta ? cta->id : 0) << kRankShift |
           (address & kOffsetMask);
  }
  return address;
}

void moec::emulator::noteStrongRead(Warp &warp, const Inst &inst, unsigned lane,
                                    uint64_t address) {
  Device &device = warp.cta.device;
  if (!device.settings.checkRaces)
    return;
  const Clocks *released =
      device.syncVariables.find(keyOf(warp, inst, address));
  if (!released)
    return;
  if (inst.order == Order::Acquire || inst.order == Order::AcquireRelease)
    warp.clocks.acquire(1u << lane, *released);
  else
    warp.clocks.observe(lane, *released);
}

void moec::emulator::noteStrongWrite(Warp &warp, const Inst &inst,
                                     unsigned lane, uint64_t address,
                                     bool isAtomic) {
  Device &device = warp.cta.device;
  if (!device.settings.checkRaces)
    return;
  const uint64_t key = keyOf(warp, inst, address);
  if (inst.order == Order::Release || inst.order == Order::AcquireRelease) {
    Clocks what;
    what.cta = warp.cta.id;
    warp.clocks.release(1u << lane, what);
    device.syncVariables.release(key, what, isAtomic);
  } else if (ClocksPointer fenced = warp.clocks.fenced(lane)) {
    device.syncVariables.release(key, *fenced, isAtomic);
  } else if (!isAtomic) {
    device.syncVariables.forget(key);
  }
}
