//===- AsyncCopy.cpp - cp.async of threads --------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Groups and completion belong to a thread. A copy's bytes appear when it is
// awaited at the latest.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/instructions/Mbarrier.h"
#include "test/emulator/machine/Memory.h"
#include "test/emulator/parse/Rows.h"

#include <fmt/core.h>

using namespace moec::emulator;

/// The group of a copy that was not committed.
static constexpr uint32_t kOpen = ~0u;

static void moveBytes(Cta &cta, AsyncCopy &copy) {
  if (copy.moved)
    return;
  copy.moved = true;
  forLanes(copy.lanes, [&](unsigned lane) {
    uint8_t *to = &cta.shared[copy.to[lane]];
    uint8_t *defined = &cta.sharedDefined[copy.to[lane]];
    const uint32_t bytes = copy.bytes[lane];
    std::memset(to, 0, copy.full);
    std::memset(defined, 1, copy.full);
    if (!bytes)
      return;
    const auto *from = reinterpret_cast<const uint8_t *>(copy.from[lane]);
    std::memcpy(to, from, bytes);
    Region *region = cta.device.findRegion(copy.from[lane], bytes);
    if (region && !region->defined.empty())
      std::memcpy(defined, &region->defined[copy.from[lane] - region->begin],
                  bytes);
  });
}

static Step copyAsync(Warp &warp, const Inst &inst, uint32_t lanes) {
  requireDefined(warp, inst, inst.memory[0].base, lanes, "the address");
  Cta &cta = warp.cta;
  auto copy = std::make_shared<AsyncCopy>();
  copy->inst = &inst;
  copy->lanes = 0;
  copy->full = inst.bytes;
  forLanes(lanes, [&](unsigned lane) {
    const auto to = uint32_t(warp.addressOf(inst.memory[0], lane));
    const uint64_t from = warp.addressOf(inst.memory[1], lane);
    const uint32_t bytes =
        inst.src[0] ? uint32_t(warp.value(inst.src[0], lane)) : inst.bytes;
    const uint32_t offset = to & kOffsetMask;
    if (bytes > inst.bytes)
      cta.device.report(
          "bounds", &warp, &inst, lane,
          fmt::format("{} bytes of {} to copy", bytes, inst.bytes));
    if (to >> kRankShift != cta.rank ||
        offset + inst.bytes > cta.shared.size()) {
      cta.device.report("bounds", &warp, &inst, lane,
                        fmt::format("copy of {} bytes to shared address {:#x}, "
                                    "of {} bytes",
                                    inst.bytes, to, cta.shared.size()));
      return;
    }
    if (offset % inst.bytes || (bytes && from % inst.bytes))
      cta.device.report("alignment", &warp, &inst, lane,
                        fmt::format("copy of {} bytes from {:#x} to shared "
                                    "address {:#x}",
                                    inst.bytes, from, offset));
    if (bytes) {
      requireDefined(warp, inst, inst.memory[1].base, 1u << lane,
                     "the address");
      Region *region = cta.device.findRegion(from, bytes, cta.grid);
      if (!region) {
        cta.device.report("bounds", &warp, &inst, lane,
                          fmt::format("copy of {} bytes from global address "
                                      "{:#x}, which {}",
                                      bytes, from,
                                      cta.device.whyUnreachable(from)));
        return;
      }
      cta.grid.copiedBytes += bytes;
      if (region->shadow)
        region->shadow->access({warp, inst, lane}, from - region->begin, bytes,
                               /*isWrite=*/false, from);
    }
    if (cta.shadow)
      cta.shadow->writePending({warp, inst, lane}, offset, inst.bytes);
    copy->lanes |= 1u << lane;
    copy->to[lane] = offset;
    copy->from[lane] = from;
    copy->bytes[lane] = bytes;
    copy->group[lane] = kOpen;
  });
  const Timing timing = cta.device.settings.timing;
  if (timing == Timing::AtOnce ||
      (timing == Timing::Random && cta.device.chance(3)))
    moveBytes(cta, *copy);
  else if (timing == Timing::Random)
    cta.events.push_back(
        {[&cta, copy] { moveBytes(cta, *copy); }, &warp, &inst});
  warp.copies.push_back(std::move(copy));
  return Step::Next;
}

static Step commit(Warp &warp, const Inst &, uint32_t lanes) {
  for (auto &copy : warp.copies)
    forLanes(copy->lanes & lanes, [&](unsigned lane) {
      if (copy->group[lane] == kOpen)
        copy->group[lane] = warp.copyGroup[lane];
    });
  forLanes(lanes, [&](unsigned lane) { ++warp.copyGroup[lane]; });
  return Step::Next;
}

/// Others may learn of the lane's copy by its first arrival, else with `clock`.
static void settle(Warp &warp, AsyncCopy &copy, unsigned lane, uint32_t clock) {
  if (warp.cta.shadow)
    warp.cta.shadow->settle({warp, *copy.inst, lane}, copy.to[lane], copy.full,
                            copy.arrived[lane] ? copy.arrived[lane] : clock);
}

/// Waits until at most `immediate` groups are pending; flag: also for copies of
/// no group.
static Step await(Warp &warp, const Inst &inst, uint32_t lanes) {
  for (auto &copy : warp.copies) {
    uint32_t landed = 0;
    forLanes(copy->lanes & lanes, [&](unsigned lane) {
      const bool isOpen = copy->group[lane] == kOpen;
      if (isOpen ? inst.flag
                 : copy->group[lane] + inst.immediate < warp.copyGroup[lane])
        landed |= 1u << lane;
    });
    if (!landed)
      continue;
    moveBytes(warp.cta, *copy);
    forLanes(landed, [&](unsigned lane) {
      settle(warp, *copy, lane, warp.clocks.clock(lane));
    });
    copy->lanes &= ~landed;
  }
  std::erase_if(warp.copies, [](const auto &copy) { return !copy->lanes; });
  return Step::Next;
}

/// Arrives once all earlier copies of the lane have landed. kind: without
/// .noinc, so that the arrival is one more than the barrier expects.
static Step arriveAfter(Warp &warp, const Inst &inst, uint32_t lanes) {
  Cta &cta = warp.cta;
  struct Arrival {
    Mbarrier *mbarrier;
    uint32_t count = 0;
  };
  std::map<uint32_t, Arrival> arrivals;
  forLanes(lanes, [&](unsigned lane) {
    const auto address = uint32_t(warp.addressOf(inst.memory[0], lane));
    if (Mbarrier *mbarrier = findMbarrier(warp, inst, lane, address, nullptr)) {
      auto &arrival = arrivals[address];
      arrival.mbarrier = mbarrier;
      ++arrival.count;
      if (inst.kind)
        ++mbarrier->pending;
    }
  });
  std::array<uint32_t, kLanes> clocks{};
  forLanes(lanes,
           [&](unsigned lane) { clocks[lane] = warp.clocks.clock(lane); });
  Clocks what;
  what.cta = cta.id;
  if (cta.device.settings.checkRaces)
    warp.clocks.release(lanes, what);
  std::vector<std::shared_ptr<AsyncCopy>> copies;
  for (const auto &copy : warp.copies)
    if (copy->lanes & lanes) {
      copies.push_back(copy);
      forLanes(copy->lanes & lanes, [&](unsigned lane) {
        if (!copy->arrived[lane])
          copy->arrived[lane] = clocks[lane];
      });
    }
  auto land = [&warp, &inst, lanes, copies, arrivals, clocks, what] {
    for (const auto &copy : copies) {
      moveBytes(warp.cta, *copy);
      forLanes(copy->lanes & lanes,
               [&](unsigned lane) { settle(warp, *copy, lane, clocks[lane]); });
    }
    for (const auto &[address, arrival] : arrivals)
      arriveAt(warp, inst, warp.cta, *arrival.mbarrier, arrival.count, what);
  };
  if (cta.device.settings.timing == Timing::AtOnce)
    land();
  else
    cta.events.push_back({land, &warp, &inst});
  // Copies that an mbarrier follows are not waited for by groups. Lanes may
  // arrive one after the other.
  std::erase_if(warp.copies, [&](const auto &copy) {
    bool all = true;
    forLanes(copy->lanes,
             [&](unsigned lane) { all &= copy->arrived[lane] != 0; });
    return all;
  });
  return Step::Next;
}

static void noteCopy(Inst &inst, const NameParts &name) {
  inst.bytes = uint32_t(inst.immediate);
  inst.taint = Taint::Own;
  if (inst.bytes != 16 &&
      (name.has("cg") || (inst.bytes != 4 && inst.bytes != 8)))
    throw PtxError("the size must be 4, 8 or 16, and 16 with .cg");
}
static void noteHintedCopy(Inst &inst, const NameParts &name) {
  noteCopy(inst, name);
  inst.src[0] = {}; // the policy, not the number of bytes
}
static void noteWait(Inst &inst, const NameParts &name) {
  inst.flag = name.has("wait_all");
}
static void noteArrive(Inst &inst, const NameParts &name) {
  inst.kind = !name.has("noinc");
  inst.taint = Taint::Own;
}

void moec::emulator::addAsyncCopyRows(Rows &rows) {
  const std::string copy = "cp.async.ca|cg.shared|shared::cta.global.";
  const std::string prefetch = "?L2::64B|L2::128B|L2::256B";
  rows.insert(rows.end(),
              {{copy + prefetch, "m m i [s4]", copyAsync, noteCopy},
               {copy + "L2::cache_hint." + prefetch, "m m i s8", copyAsync,
                noteHintedCopy},
               {copy + "L2::cache_hint." + prefetch, "m m i s4 s8", copyAsync,
                noteCopy},
               {"cp.async.commit_group", "", commit},
               {"cp.async.wait_group", "i", await, noteWait},
               {"cp.async.wait_all", "", await, noteWait},
               {"cp.async.mbarrier.arrive.?noinc.?shared|shared::cta.b64", "m",
                arriveAfter, noteArrive}});
}
