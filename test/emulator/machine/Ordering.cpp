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

bool moec::emulator::isSystemScope(const NameParts &name) {
  return name.has("sys") || name.has("volatile");
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
  const unsigned gpu = warp.cta.grid.launch.gpu;
  const uint64_t version = device.syncVariables.version();
  for (const SyncVariables::Release &released :
       device.syncVariables.find(keyOf(warp, inst, address))) {
    const bool isOther = released.gpu != gpu;
    if (isOther && !(released.isSystem && inst.isSystem))
      continue;
    if (inst.order == Order::Acquire || inst.order == Order::AcquireRelease)
      warp.clocks.acquire(lane, released.clocks, version);
    else
      warp.clocks.observe(lane, released.clocks, version, isOther);
  }
}

void moec::emulator::noteStrongWrite(Warp &warp, const Inst &inst,
                                     unsigned lane, uint64_t address,
                                     bool isAtomic) {
  Device &device = warp.cta.device;
  if (!device.settings.checkRaces)
    return;
  const uint64_t key = keyOf(warp, inst, address);
  const unsigned gpu = warp.cta.grid.launch.gpu;
  if (inst.order == Order::Release || inst.order == Order::AcquireRelease) {
    SyncVariables::Release what{gpu, inst.isSystem, {}};
    what.clocks.cta = warp.cta.id;
    warp.clocks.release(1u << lane, what.clocks);
    device.syncVariables.release(key, what, isAtomic);
    return;
  }
  if (!isAtomic)
    device.syncVariables.forget(key);
  if (ClocksPointer fenced = warp.clocks.fenced(lane, false))
    device.syncVariables.release(key, {gpu, false, *fenced}, /*kept=*/true);
  if (!inst.isSystem)
    return;
  if (ClocksPointer fenced = warp.clocks.fenced(lane, true))
    device.syncVariables.release(key, {gpu, true, *fenced}, /*kept=*/true);
}
