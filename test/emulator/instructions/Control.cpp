//===- Control.cpp - branches, ends and fences ----------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Instructions that change the way of a warp, and fences of memory and of
// proxies.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/instructions/Converged.h"
#include "test/emulator/machine/Ordering.h"

#include <fmt/core.h>

using namespace moec::emulator;

static Step branch(Warp &, const Inst &, uint32_t) { return Step::Branch; }

static Step end(Warp &, const Inst &, uint32_t) { return Step::Exit; }

static Step trap(Warp &warp, const Inst &inst, uint32_t lanes) {
  warp.cta.device.report("trap", &warp, &inst,
                         unsigned(std::countr_zero(lanes)),
                         "the kernel ends itself");
  return Step::Exit;
}

static Step sleep(Warp &, const Inst &, uint32_t) { return Step::Yield; }

static Step fence(Warp &warp, const Inst &inst, uint32_t lanes) {
  if (warp.cta.device.settings.checkRaces)
    warp.clocks.fence(lanes, inst.isSystem);
  return Step::Next;
}

static Step fenceProxy(Warp &warp, const Inst &, uint32_t lanes) {
  if (warp.cta.device.settings.checkRaces)
    warp.clocks.fenceProxy(lanes);
  return Step::Next;
}

/// Orders what needs no order here: mbarrier.init is seen at once by the CTA.
static Step nothing(Warp &, const Inst &, uint32_t) { return Step::Next; }

static Step launchDependents(Warp &warp, const Inst &, uint32_t lanes) {
  Cta &cta = warp.cta;
  if (!cta.triggered) {
    const auto lane = unsigned(std::countr_zero(lanes));
    cta.grid.triggerKnown =
        std::min(cta.grid.triggerKnown,
                 warp.clocks.view(lane).launches[cta.grid.launch.gpu]);
    cta.triggered = true;
    ++cta.grid.triggered;
    cta.device.noteEffect();
  }
  return Step::Next;
}

static Step awaitGrid(Warp &warp, const Inst &, uint32_t lanes) {
  Cta &cta = warp.cta;
  if (cta.grid.predecessor)
    return Step::Wait;
  cta.awaitedGrid = true;
  if (cta.device.settings.checkRaces) {
    const unsigned gpu = cta.grid.launch.gpu;
    Clocks ended = cta.device.learnedUpTo(gpu, cta.grid.number - 1);
    ended.launches[gpu] = cta.grid.number - 1;
    warp.clocks.acquire(lanes, ended);
  }
  return Step::Next;
}

/// The number of registers changes nothing but how many there are.
static Step setRegisters(Warp &warp, const Inst &inst, uint32_t lanes) {
  if (!isConverged(warp, lanes))
    return Step::Wait;
  const int64_t count =
      warp.cta.device.settings.checkRaces ? inst.immediate : 0;
  if (count && (count < 24 || count > 256 || count % 8))
    warp.cta.device.report("sync", &warp, &inst, {},
                           "the number of registers must be a multiple of 8 "
                           "from 24 to 256");
  return Step::Next;
}

static void noteFence(Inst &inst, const NameParts &name) {
  inst.isSystem = isSystemScope(name);
}

static void mayWait(Inst &inst, const NameParts &) { inst.mayWait = true; }

void moec::emulator::addControlRows(Rows &rows) {
  rows.insert(
      rows.end(),
      {{"bra.?uni", "", branch},
       {"ret.?uni", "", end},
       {"exit", "", end},
       {"trap", "", trap},
       {"nanosleep.u32", "s4", sleep},
       {"membar.cta|gl|sys", "", fence, noteFence},
       {"fence.?sc|acq_rel.cta|cluster|gpu|sys", "", fence, noteFence},
       {"fence.proxy.async.?global|shared::cta|shared::cluster", "",
        fenceProxy},
       {"fence.proxy.alias", "", nothing},
       {"fence.mbarrier_init.release.cluster", "", nothing},
       {"griddepcontrol.launch_dependents", "", launchDependents},
       {"griddepcontrol.wait", "", awaitGrid, mayWait},
       {"setmaxnreg.inc|dec.sync.aligned.u32", "i", setRegisters, mayWait}});
}
