//===- Mbarrier.cpp - mbarriers -------------------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Arrivals, transactions and phases.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/instructions/Mbarrier.h"

#include "test/emulator/machine/Memory.h"
#include "test/emulator/parse/Rows.h"

#include <fmt/core.h>

using namespace moec::emulator;

Mbarrier *moec::emulator::findMbarrier(Warp &warp, const Inst &inst,
                                       unsigned lane, uint32_t address,
                                       Cta **of) {
  Cta *cta = ctaOf(warp, inst, lane, address);
  if (!cta)
    return nullptr;
  if (of)
    *of = cta;
  auto it = cta->mbarriers.find(address & kOffsetMask);
  if (it != cta->mbarriers.end() && it->second.valid)
    return &it->second;
  warp.cta.device.report("mbarrier", &warp, &inst, lane,
                         fmt::format("no mbarrier was initialized at shared "
                                     "address {:#x} of CTA {}",
                                     address & kOffsetMask, cta->index));
  return nullptr;
}

/// Begins the next phase where nothing is pending.
static void completePhase(Cta &cta, Mbarrier &mbarrier) {
  if (mbarrier.pending || mbarrier.bytes)
    return;
  ++mbarrier.phase;
  mbarrier.pending = mbarrier.count;
  if (cta.device.settings.checkRaces)
    mbarrier.released = std::make_shared<Clocks>(mbarrier.collected);
  cta.device.noteEffect();
}

void moec::emulator::arriveAt(Warp &warp, const Inst &inst, Cta &cta,
                              Mbarrier &mbarrier, uint32_t count,
                              const Clocks &what) {
  if (count > mbarrier.pending) {
    warp.cta.device.report("mbarrier", &warp, &inst, {},
                           fmt::format("{} arrivals where {} of {} are pending",
                                       count, mbarrier.pending,
                                       mbarrier.count));
    count = mbarrier.pending;
  }
  mbarrier.pending -= count;
  if (cta.device.settings.checkRaces)
    mbarrier.collected.join(what);
  completePhase(cta, mbarrier);
}

void moec::emulator::completeBytes(Cta &cta, Mbarrier &mbarrier,
                                   int64_t bytes) {
  mbarrier.bytes -= bytes;
  if (cta.device.settings.checkRaces)
    mbarrier.collected.raise(writerOf(cta, mbarrier), mbarrier.phase + 1);
  completePhase(cta, mbarrier);
}

/// Uses of an mbarrier race with its initialization, not with each other.
static void touch(Warp &warp, const Inst &inst, unsigned lane,
                  uint32_t address) {
  accessShared(warp, inst, lane, address, 8, Access::Read);
}

static Step initialize(Warp &warp, const Inst &inst, uint32_t lanes) {
  forLanes(lanes, [&](unsigned lane) {
    const auto address = uint32_t(warp.addressOf(inst.memory[0], lane));
    const Place place =
        accessShared(warp, inst, lane, address, 8, Access::Write);
    if (place.defined)
      std::memset(place.defined, 1, 8);
    Cta *cta = ctaOf(warp, inst, lane, address);
    if (!cta)
      return;
    const auto count = uint32_t(warp.value(inst.src[0], lane));
    if (count == 0 || count >= 1 << 20)
      cta->device.report("mbarrier", &warp, &inst, lane,
                         fmt::format("a count of {} arrivals", count));
    Mbarrier &mbarrier = cta->mbarriers[address & kOffsetMask];
    if (mbarrier.valid)
      cta->device.report("mbarrier", &warp, &inst, lane,
                         "an mbarrier lives at this address");
    const bool isNew = !mbarrier.slot && !mbarrier.phase;
    const uint32_t slot = isNew ? ++cta->clockSlots : mbarrier.slot;
    mbarrier = {};
    mbarrier.valid = true;
    mbarrier.count = mbarrier.pending = count;
    mbarrier.slot = slot;
    mbarrier.collected.cta = cta->id;
  });
  return Step::Next;
}

static Step invalidate(Warp &warp, const Inst &inst, uint32_t lanes) {
  forLanes(lanes, [&](unsigned lane) {
    const auto address = uint32_t(warp.addressOf(inst.memory[0], lane));
    if (Mbarrier *mbarrier = findMbarrier(warp, inst, lane, address, nullptr))
      mbarrier->valid = false;
  });
  return Step::Next;
}

/// Arrives with a count and bytes to expect: flag says that the source is the
/// latter.
static Step arrive(Warp &warp, const Inst &inst, uint32_t lanes) {
  requireDefined(warp, inst, inst.memory[0].base, lanes, "the address");
  forLanes(lanes, [&](unsigned lane) {
    const auto address = uint32_t(warp.addressOf(inst.memory[0], lane));
    Cta *cta = nullptr;
    Mbarrier *mbarrier = findMbarrier(warp, inst, lane, address, &cta);
    if (!mbarrier)
      return;
    touch(warp, inst, lane, address);
    uint32_t count = 1;
    if (inst.flag)
      mbarrier->bytes += uint32_t(warp.value(inst.src[0], lane));
    else if (inst.src[0])
      count = uint32_t(warp.value(inst.src[0], lane));
    if (inst.dst[0]) {
      warp.set(inst.dst[0], lane, mbarrier->phase);
      warp.setDefined(inst.dst[0], 1u << lane, kAllLanes);
    }
    Clocks what;
    what.cta = warp.cta.id;
    if (cta->device.settings.checkRaces)
      warp.clocks.release(1u << lane, what);
    arriveAt(warp, inst, *cta, *mbarrier, count, what);
  });
  return Step::Next;
}

static Step expectBytes(Warp &warp, const Inst &inst, uint32_t lanes) {
  forLanes(lanes, [&](unsigned lane) {
    const auto address = uint32_t(warp.addressOf(inst.memory[0], lane));
    Cta *cta = nullptr;
    if (Mbarrier *mbarrier = findMbarrier(warp, inst, lane, address, &cta)) {
      touch(warp, inst, lane, address);
      mbarrier->bytes += uint32_t(warp.value(inst.src[0], lane));
      completePhase(*cta, *mbarrier);
    }
  });
  return Step::Next;
}

/// By parity, or by the state of an arrival. flag: does not wait.
static Step wait(Warp &warp, const Inst &inst, uint32_t lanes) {
  requireDefined(warp, inst, inst.memory[0].base, lanes, "the address");
  requireDefined(warp, inst, inst.src[0], lanes, "the phase");
  Device &device = warp.cta.device;
  uint32_t ended = 0;
  std::array<ClocksPointer, kLanes> released;
  forLanes(lanes, [&](unsigned lane) {
    const auto address = uint32_t(warp.addressOf(inst.memory[0], lane));
    Mbarrier *mbarrier = findMbarrier(warp, inst, lane, address, nullptr);
    if (!mbarrier)
      return;
    const auto phase = uint32_t(warp.value(inst.src[0], lane));
    const bool isOver =
        inst.kind ? mbarrier->phase % 2 != phase % 2 : mbarrier->phase != phase;
    ended |= uint32_t(isOver) << lane;
    released[lane] = mbarrier->released;
  });
  if (!ended && !inst.flag)
    return Step::Wait;
  // An attempt may end before the phase does.
  if (!inst.flag && device.settings.timing == Timing::Random &&
      device.chance(8))
    ended = 0;
  forLanes(ended, [&](unsigned lane) {
    touch(warp, inst, lane, uint32_t(warp.addressOf(inst.memory[0], lane)));
  });
  if (device.settings.checkRaces)
    for (uint32_t rest = ended; rest;) {
      const auto first = size_t(std::countr_zero(rest));
      uint32_t same = 0;
      forLanes(rest, [&](unsigned lane) {
        same |= uint32_t(released[lane] == released[first]) << lane;
      });
      rest &= ~same;
      if (released[first])
        warp.clocks.acquire(same, *released[first]);
    }
  warp.setPredicate(inst.dst[0], lanes, ended);
  warp.setDefined(inst.dst[0], lanes, kAllLanes);
  return Step::Next;
}

static void noteMbarrier(Inst &inst, const NameParts &name) {
  inst.order = inst.order == Order::Weak && !name.has("init") ? Order::Relaxed
                                                              : Order::Weak;
  inst.space = Space::Shared;
  inst.taint = Taint::Own;
  inst.flag =
      name.has("arrive") ? name.has("expect_tx") : name.has("test_wait");
  inst.kind = name.has("parity");
  inst.mayWait = name.has("try_wait");
}

void moec::emulator::addMbarrierRows(Rows &rows) {
  const std::string where = ".?shared|shared::cta|shared::cluster.b64";
  const std::string order = ".?release|relaxed|acquire.?cta|cluster";
  auto add = [&](const std::string &name, const char *operands,
                 Inst::Execute execute) {
    rows.push_back(
        {"mbarrier." + name + where, operands, execute, noteMbarrier});
  };
  add("init", "m s4", initialize);
  add("inval", "m", invalidate);
  add("arrive" + order, "#_ m [s4]", arrive);
  add("arrive" + order, "d8 m [s4]", arrive);
  add("arrive.expect_tx" + order, "#_ m s4", arrive);
  add("arrive.expect_tx" + order, "d8 m s4", arrive);
  add("expect_tx" + order, "m s4", expectBytes);
  add("test_wait.parity" + order, "d0 m s4", wait);
  add("test_wait" + order, "d0 m s8", wait);
  add("try_wait.parity" + order, "d0 m s4 [s4]", wait);
  add("try_wait" + order, "d0 m s8 [s4]", wait);
  rows.push_back({"mapa.shared::cluster.u32", "d4 s4 s4",
                  [](Warp &warp, const Inst &inst, uint32_t lanes) {
                    forLanes(lanes, [&](unsigned lane) {
                      warp.set(inst.dst[0], lane,
                               (warp.value(inst.src[0], lane) & kOffsetMask) |
                                   warp.value(inst.src[1], lane) << kRankShift);
                    });
                    return Step::Next;
                  }});
}
