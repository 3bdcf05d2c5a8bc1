//===- Warp.cpp - groups of lanes and their steps -------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A warp runs the group of the lowest instruction, so that lanes meet again
// after a branch. Groups that do not meet take turns.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/machine/Machine.h"
#include "test/emulator/machine/Memory.h"

#include <fmt/core.h>

#include <algorithm>

using namespace moec::emulator;

/// Steps of a diverged warp after which the next group is preferred.
static constexpr uint32_t kTurn = 2000;

Warp::Warp(Cta &cta, unsigned index) : cta(cta), index(index) {
  const Grid &grid = cta.grid;
  const Kernel &kernel = *grid.kernel;
  image = kernel.image;
  defined.assign(kernel.registers, 0);
  const uint32_t first = index * kLanes;
  live = cta.threads - first >= kLanes ? kAllLanes
                                       : (1u << (cta.threads - first)) - 1;
  groups.push_back({0, live});
  const Dim &block = grid.launch.block, &all = grid.launch.grid;
  const uint32_t cluster = grid.launch.cluster;
  struct Value {
    std::string_view name;
    uint32_t value;
  };
  const Value uniform[] = {
      {"%ntid.x", block.x},
      {"%ntid.y", block.y},
      {"%ntid.z", block.z},
      {"%ctaid.x", cta.index % all.x},
      {"%ctaid.y", cta.index / all.x % all.y},
      {"%ctaid.z", cta.index / all.x / all.y},
      {"%nctaid.x", all.x},
      {"%nctaid.y", all.y},
      {"%nctaid.z", all.z},
      {"%warpid", index},
      {"%nwarpid", (cta.threads + kLanes - 1) / kLanes},
      {"%smid", cta.index % cta.device.settings.numSms},
      {"%nsmid", cta.device.settings.numSms},
      {"%cluster_ctarank", cta.rank},
      {"%cluster_ctaid.x", cta.rank},
      {"%cluster_nctarank", cluster},
      {"%cluster_nctaid.x", cluster},
      {"%clusterid.x", cta.index / cluster},
      {"%nclusterid.x", all.x / cluster},
      {"%dynamic_smem_size", grid.launch.dynamicShared},
      {"%total_smem_size", uint32_t(cta.shared.size())},
  };
  for (const SpecialRegister &special : kernel.specials) {
    if (special.reg.bytes == 8)
      continue; // clocks
    auto *lanes = lanesOf<uint32_t>(special.reg);
    auto found = std::ranges::find(uniform, special.name, &Value::name);
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      const uint32_t thread = first + lane;
      if (special.name == "%tid.x")
        lanes[lane] = thread % block.x;
      else if (special.name == "%tid.y")
        lanes[lane] = thread / block.x % block.y;
      else if (special.name == "%tid.z")
        lanes[lane] = thread / block.x / block.y;
      else if (special.name == "%laneid")
        lanes[lane] = lane;
      else if (special.name.starts_with("%lanemask_"))
        lanes[lane] = special.name.ends_with("_lt")   ? (1u << lane) - 1
                      : special.name.ends_with("_le") ? (2u << lane) - 1
                      : special.name.ends_with("_gt") ? ~((2u << lane) - 1)
                      : special.name.ends_with("_ge") ? ~((1u << lane) - 1)
                                                      : 1u << lane;
      else if (found != std::end(uniform))
        lanes[lane] = found->value;
      else
        throw PtxError("special register " + special.name + " is not covered");
    }
  }
  for (const Reg &reg : kernel.sharedAddresses)
    for (unsigned lane = 0; lane < kLanes; ++lane)
      set(reg, lane, value(reg, lane) | cta.rank << kRankShift);
  for (const auto &[reg, offset] : kernel.paramAddresses)
    for (unsigned lane = 0; lane < kLanes; ++lane)
      set(reg, lane, reinterpret_cast<uint64_t>(grid.params.data()) + offset);
}

uint64_t Warp::value(const Reg &reg, unsigned lane) {
  switch (reg.bytes) {
  case 1:
    return lanesOf<uint8_t>(reg)[lane];
  case 2:
    return lanesOf<uint16_t>(reg)[lane];
  case 4:
    return lanesOf<uint32_t>(reg)[lane];
  case 8:
    return lanesOf<uint64_t>(reg)[lane];
  default:
    return predicate(reg) >> lane & 1;
  }
}

void Warp::set(const Reg &reg, unsigned lane, uint64_t value) {
  switch (reg.bytes) {
  case 1:
    lanesOf<uint8_t>(reg)[lane] = uint8_t(value);
    break;
  case 2:
    lanesOf<uint16_t>(reg)[lane] = uint16_t(value);
    break;
  case 4:
    lanesOf<uint32_t>(reg)[lane] = uint32_t(value);
    break;
  case 8:
    lanesOf<uint64_t>(reg)[lane] = value;
    break;
  default:
    setPredicate(reg, 1u << lane, value & 1 ? kAllLanes : 0);
  }
}

void Warp::setPredicate(const Reg &reg, uint32_t lanes, uint32_t values) {
  word(reg) = (word(reg) & ~lanes) | (values & lanes);
}

uint64_t Warp::addressOf(const MemoryOperand &memory, unsigned lane) {
  const uint64_t address = value(memory.base, lane) + uint64_t(memory.offset);
  return memory.base.bytes == 4 ? uint32_t(address) : address;
}

bool TensorWarp::isDone(uint32_t number) const {
  for (const auto *works : {&loads, &stores})
    if (std::ranges::find(*works, number, &AsyncWork::group) != works->end())
      return false;
  return true;
}

uint32_t TensorWarp::doneUpTo() const {
  uint32_t done = issued;
  for (const auto *works : {&loads, &stores})
    if (!works->empty())
      done = std::min(done, works->front().group - 1);
  return done;
}

/// Reports uses of registers that a tcgen05.ld in flight writes.
static void checkLoading(Warp &warp, const Inst &inst, uint32_t lanes) {
  auto check = [&](uint32_t reg) {
    if (warp.tensorWork.registers.contains(reg))
      warp.cta.device.report(
          "async", &warp, &inst, unsigned(std::countr_zero(lanes)),
          "a register that a tcgen05.ld writes is used before the "
          "tcgen05.wait::ld");
  };
  std::ranges::for_each(inst.reads, check);
  std::ranges::for_each(inst.writes, check);
  for (const MemoryOperand &memory : inst.memory)
    if (memory.base && !memory.base.constant)
      check(memory.base.index);
  if (inst.guard)
    check(inst.guard.index);
}

/// The group that goes on next; null if all wait.
static Group *pickGroup(Warp &warp) {
  if (warp.groups.size() == 1)
    return warp.groups[0].waits ? nullptr : &warp.groups[0];
  std::vector<Group *> ready;
  for (Group &group : warp.groups)
    if (!group.waits)
      ready.push_back(&group);
  if (ready.empty())
    return nullptr;
  std::ranges::sort(ready, {}, &Group::pc);
  return ready[++warp.divergedSteps / kTurn % ready.size()];
}

static void mergeGroups(Warp &warp) {
  for (size_t a = 0; a < warp.groups.size(); ++a)
    for (size_t b = a + 1; b < warp.groups.size();) {
      Group &into = warp.groups[a], &from = warp.groups[b];
      if (into.pc != from.pc || into.arrived || from.arrived) {
        ++b;
        continue;
      }
      into.lanes |= from.lanes;
      into.waits = false;
      into.steps = 0;
      warp.groups.erase(warp.groups.begin() + long(b));
    }
}

static void removeLanes(Warp &warp, Group &group, uint32_t lanes) {
  warp.live &= ~lanes;
  warp.exited |= lanes;
  group.lanes &= ~lanes;
  ++group.pc;
  std::erase_if(warp.groups, [](const Group &one) { return !one.lanes; });
  warp.cta.device.noteEffect();
}

/// Steps to an early return; lanes that do more have passed by.
static constexpr uint32_t kReturnSteps = 6;

/// Reports lanes that end where others of the warp wait for them at an
/// instruction for all, if they did not return at once.
static void checkPassedBy(Warp &warp, const Group &ending, uint32_t lanes) {
  if (ending.steps <= kReturnSteps || ending.lanes != lanes)
    return;
  for (const Group &group : warp.groups) {
    const Inst &inst = warp.cta.grid.kernel->code[group.pc];
    if (&group == &ending || group.arrived || !inst.mayWait ||
        (inst.text.find("bar.sync") == std::string::npos &&
         inst.text.find("bar.red") == std::string::npos &&
         inst.text.find(".aligned") == std::string::npos))
      continue;
    warp.cta.device.report(
        "sync", &warp, &inst, unsigned(std::countr_zero(lanes)),
        "lanes of the warp end without this instruction, which is for all");
  }
}

/// Undefined values: the guard must not be, results may be.
static void spreadTaint(Warp &warp, const Inst &inst, uint32_t group,
                        uint32_t lanes) {
  if (inst.guard)
    requireDefined(warp, inst, inst.guard, group, "the guard");
  if (inst.taint != Taint::Elementwise)
    return;
  uint32_t mask = kAllLanes;
  for (uint32_t reg : inst.reads)
    mask &= warp.defined[reg];
  for (uint32_t reg : inst.writes)
    warp.defined[reg] = (warp.defined[reg] & ~lanes) | (mask & lanes);
}

bool moec::emulator::runWarp(Warp &warp, unsigned steps) {
  Device &device = warp.cta.device;
  const Kernel &kernel = *warp.cta.grid.kernel;
  const bool tracks = device.settings.checkUndefined;
  bool progress = false, fresh = false;
  // Nothing has changed that it could wait for.
  if (warp.waitsSince == device.effects)
    return false;
  warp.waitsSince = ~uint64_t(0);
  for (Group &group : warp.groups)
    group.waits = false;
  while (steps-- > 0 && !warp.groups.empty()) {
    Group *group = pickGroup(warp);
    if (!group) {
      // The steps of one group may let another one go on.
      if (!fresh) {
        if (!progress)
          warp.waitsSince = device.effects;
        break;
      }
      fresh = false;
      for (Group &other : warp.groups)
        other.waits = false;
      continue;
    }
    const Inst &inst = kernel.code[group->pc];
    uint32_t lanes = group->lanes;
    if (inst.guard) {
      lanes &= warp.predicate(inst.guard);
      if (inst.mayWait && lanes && lanes != group->lanes) {
        // The others do not wait.
        const Group rest{group->pc + 1, group->lanes & ~lanes};
        group->lanes = lanes;
        warp.groups.push_back(rest);
        group = &warp.groups[size_t(
            std::ranges::find(warp.groups, lanes, &Group::lanes) -
            warp.groups.begin())];
      }
    }
    warp.current = group;
    if (!warp.tensorWork.registers.empty() && lanes)
      checkLoading(warp, inst, lanes);
    if (tracks)
      spreadTaint(warp, inst, group->lanes, lanes);
    ++device.steps;
    const Step step = lanes ? inst.execute(warp, inst, lanes) : Step::Next;
    group = warp.current;
    if (step == Step::Wait) {
      group->waits = true;
      continue;
    }
    progress = fresh = true;
    ++group->steps;
    switch (step) {
    case Step::Branch:
      if (const uint32_t rest = group->lanes & ~lanes) {
        ++group->pc;
        group->lanes = rest;
        group->steps = 0;
        warp.groups.push_back({inst.target, lanes});
      } else {
        group->pc = inst.target;
      }
      break;
    case Step::Exit:
      if (warp.groups.size() > 1)
        checkPassedBy(warp, *group, lanes);
      removeLanes(warp, *group, lanes);
      break;
    default:
      ++group->pc;
    }
    if (warp.groups.size() > 1)
      mergeGroups(warp);
    if (step == Step::Yield)
      return true;
  }
  // The steps may have ended before each group had a turn.
  return progress || std::ranges::any_of(warp.groups, [](const Group &group) {
           return !group.waits;
         });
}
