//===- TensorAllocate.cpp - allocation of tensor memory -------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A warp allocates columns for its CTA, or with a warp of the other CTA for
// both of a pair, and waits while there are too few.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/instructions/Converged.h"
#include "test/emulator/instructions/TensorWork.h"
#include "test/emulator/machine/Memory.h"

#include <fmt/core.h>

#include <algorithm>

using namespace moec::emulator;

static constexpr uint32_t kFewest = 32;

static bool isColumnCount(uint32_t count) {
  return std::has_single_bit(count) && count >= kFewest &&
         count <= TensorMemory::kColumns;
}

/// Reports what the manual forbids; false if there is nothing to allocate.
static bool checkRequest(Warp &warp, const Inst &inst, uint32_t count) {
  Cta &cta = warp.cta;
  if (!cta.tensor.hasPermit)
    cta.device.report("tcgen05", &warp, &inst, {},
                      "the CTA has given up its permit to allocate");
  if (!isColumnCount(count)) {
    cta.device.report("tcgen05", &warp, &inst, {},
                      fmt::format("{} columns of tensor memory, expected a "
                                  "power of two from 32 to 512",
                                  count));
    return false;
  }
  if (count > cta.tensor.lastCount)
    cta.device.report("tcgen05", &warp, &inst, {},
                      fmt::format("{} columns after an allocation of {}: later "
                                  "ones must not be larger",
                                  count, cta.tensor.lastCount));
  return true;
}

/// The first of `count` columns that are free in all of `ctas`.
static std::optional<uint32_t>
findColumns(Device &device, const std::vector<Cta *> &ctas, uint32_t count) {
  // A kernel that assumes column 0 fails where the last ones are given.
  const bool isHighest =
      device.settings.timing == Timing::Random && device.chance(2);
  const auto found = ctas[0]->tensor.memory->findFree(count, isHighest);
  for (const Cta *cta : ctas)
    for (uint32_t i = 0; found && i < count; ++i)
      if (cta->tensor.memory->ownerOf(*found + i))
        return {};
  return found;
}

static Step allocate(Warp &warp, const Inst &inst, uint32_t lanes) {
  if (!isConverged(warp, lanes))
    return Step::Wait;
  Cta &cta = warp.cta;
  Device &device = cta.device;
  requireDefined(warp, inst, inst.memory[0].base, lanes, "the address");
  requireDefined(warp, inst, inst.src[0], lanes, "the number of columns");
  const auto lane = unsigned(std::countr_zero(lanes));
  const auto count = uint32_t(warp.value(inst.src[0], lane));
  Cta *peer = checkGroup(warp, inst);
  if (inst.option[0] == 2 && !peer)
    return Step::Next;
  if (!cta.tensor.granted) {
    const bool isNew = !cta.tensor.wanted;
    if (isNew && !checkRequest(warp, inst, count))
      return Step::Next;
    cta.tensor.memory = &device.tensorMemoryOf(cta);
    cta.tensor.wanted = count;
    std::vector<Cta *> ctas = {&cta};
    if (peer) {
      if (isNew)
        device.noteEffect(); // the other CTA waits for this one
      if (!peer->tensor.wanted)
        return Step::Wait;
      ctas.push_back(peer);
    }
    const auto begin = findColumns(device, ctas, count);
    if (!begin)
      return Step::Wait;
    for (Cta *one : ctas) {
      one->tensor.memory->take(*begin, count, one->id);
      one->tensor.columns.push_back({*begin, count, &inst});
      one->tensor.wanted.reset();
      one->tensor.granted = *begin;
    }
  }
  const uint32_t begin = *cta.tensor.granted;
  cta.tensor.granted.reset();
  cta.tensor.lastCount = count;
  const Place place =
      accessMemory(warp, inst, inst.space, lane,
                   warp.addressOf(inst.memory[0], lane), 4, Access::Write);
  std::memcpy(place.bytes, &begin, 4);
  if (place.defined)
    std::memset(place.defined, 1, 4);
  device.noteEffect();
  return Step::Next;
}

static Step release(Warp &warp, const Inst &inst, uint32_t lanes) {
  if (!isConverged(warp, lanes))
    return Step::Wait;
  Cta &cta = warp.cta;
  requireDefined(warp, inst, inst.src[0], lanes, "the address");
  requireDefined(warp, inst, inst.src[1], lanes, "the number of columns");
  Group &group = *warp.current;
  if (!group.arrived && checkGroup(warp, inst)) {
    group.arrived = true;
    group.ticket = ++cta.tensor.releases;
    cta.device.noteEffect();
  }
  // A warp of each CTA of a pair takes part; the other CTA may go on first.
  if (group.arrived && cta.peer(cta.rank ^ 1)->tensor.releases < group.ticket)
    return Step::Wait;
  group.arrived = false;
  const auto lane = unsigned(std::countr_zero(lanes));
  const auto address = uint32_t(warp.value(inst.src[0], lane)),
             count = uint32_t(warp.value(inst.src[1], lane));
  const auto found =
      std::ranges::find_if(cta.tensor.columns, [&](const auto &columns) {
        return columns.begin == address && columns.count == count;
      });
  if (found == cta.tensor.columns.end()) {
    cta.device.report("tcgen05", &warp, &inst, {},
                      fmt::format("the CTA has no allocation of {} columns at "
                                  "{:#x} of tensor memory",
                                  count, address));
    return Step::Next;
  }
  if (cta.device.settings.checkRaces)
    cta.tensor.memory->shadow.release(warp, inst, lanes, cta, found->begin,
                                      found->count);
  cta.tensor.memory->give(found->begin, found->count);
  cta.tensor.columns.erase(found);
  cta.device.noteEffect();
  return Step::Next;
}

static Step relinquish(Warp &warp, const Inst &inst, uint32_t lanes) {
  if (!isConverged(warp, lanes))
    return Step::Wait;
  checkGroup(warp, inst);
  warp.cta.tensor.hasPermit = false;
  return Step::Next;
}

static void noteSync(Inst &inst, const NameParts &name) {
  noteGroup(inst, name);
  inst.taint = Taint::Own;
  inst.mayWait = true;
  inst.space = name.has("shared::cta") ? Space::Shared : Space::Generic;
}

void moec::emulator::addTensorAllocateRows(Rows &rows) {
  const std::string end = "." + kCtaGroups + ".sync.aligned";
  rows.insert(
      rows.end(),
      {{"tcgen05.alloc" + end + ".?shared::cta.b32", "m s4", allocate,
        noteSync},
       {"tcgen05.dealloc" + end + ".b32", "s4 s4", release, noteSync},
       {"tcgen05.relinquish_alloc_permit" + end, "", relinquish, noteSync}});
}
