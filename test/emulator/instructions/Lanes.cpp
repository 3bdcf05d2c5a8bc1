//===- Lanes.cpp - exchange between the lanes of a warp -------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lanes of the mask wait for each other, wherever in the code they are. Only
// bar.warp.sync orders their accesses of memory.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/machine/Memory.h"
#include "test/emulator/parse/Rows.h"

#include <fmt/core.h>

#include <algorithm>

using namespace moec::emulator;

namespace {
/// Lanes that execute together, with the instruction of each.
struct Together {
  uint32_t lanes = 0;
  std::array<const Inst *, kLanes> inst = {};

  void add(uint32_t more, const Inst &of) {
    lanes |= more;
    forLanes(more, [&](unsigned lane) { inst[lane] = &of; });
  }
};
} // namespace

/// Lanes hand on what they acquired from other warps, as they share a cache; an
/// exchange does not order what they did themselves.
static void shareViews(Warp &warp, uint32_t lanes) {
  LaneClocks &clocks = warp.clocks;
  const auto first = unsigned(std::countr_zero(lanes));
  bool isSame = true;
  forLanes(lanes, [&](unsigned lane) {
    isSame &= clocks.viewPointer(lane) == clocks.viewPointer(first);
  });
  if (isSame)
    return;
  auto joined = std::make_shared<Clocks>();
  joined->cta = warp.cta.id;
  ClocksPointer last;
  forLanes(lanes, [&](unsigned lane) {
    if (clocks.viewPointer(lane) != last)
      joined->join(clocks.view(lane));
    last = clocks.viewPointer(lane);
  });
  clocks.replace(lanes, joined);
}

/// Collects the lanes of the member mask; false while some have not come.
static bool gather(Warp &warp, const Inst &inst, uint32_t lanes,
                   const Reg &maskOf, Together &together) {
  requireDefined(warp, inst, maskOf, lanes, "the member mask");
  const auto first = unsigned(std::countr_zero(lanes));
  const auto members = uint32_t(warp.value(maskOf, first));
  uint32_t same = 0;
  forLanes(lanes, [&](unsigned lane) {
    if (uint32_t(warp.value(maskOf, lane)) == members)
      same |= 1u << lane;
  });
  if (same & ~members)
    warp.cta.device.report(
        "sync", &warp, &inst, unsigned(std::countr_zero(same & ~members)),
        fmt::format("the lane is not in its member mask {:08x}", members));
  if (same != lanes) {
    // Each mask is an exchange of its own.
    const size_t index = size_t(warp.current - warp.groups.data());
    Group rest = *warp.current;
    rest.lanes &= ~same;
    warp.current->lanes = same;
    warp.groups.push_back(rest);
    warp.current = &warp.groups[index];
    lanes = same;
  }
  together.add(lanes, inst);
  const uint32_t needed = members & warp.live;
  std::vector<Group *> others;
  for (Group &group : warp.groups) {
    if (&group == warp.current)
      continue;
    const Inst &other = warp.cta.grid.kernel->code[group.pc];
    const Reg &otherMask =
        other.src[&maskOf - inst.src]; // the same operand of the same row
    if (other.execute != inst.execute || other.kind != inst.kind ||
        !otherMask ||
        (other.guard && group.lanes & ~warp.predicate(other.guard)) ||
        uint32_t(warp.value(
            otherMask, unsigned(std::countr_zero(group.lanes)))) != members)
      continue;
    others.push_back(&group);
    together.add(group.lanes, other);
  }
  if (needed & ~together.lanes)
    return false;
  for (Group *group : others) {
    ++group->pc;
    group->waits = false;
  }
  if (warp.cta.device.settings.checkRaces)
    shareViews(warp, together.lanes);
  return true;
}

//===----------------------------------------------------------------------===//
// shfl
//===----------------------------------------------------------------------===//

namespace {
enum ShuffleMode : uint8_t { Idx, Bfly, Up, Down };
} // namespace

static Step shuffle(Warp &warp, const Inst &inst, uint32_t lanes) {
  Together all;
  if (!gather(warp, inst, lanes, inst.src[3], all))
    return Step::Wait;
  std::array<uint32_t, kLanes> values{}, results{};
  uint32_t valueDefined = 0, resultDefined = 0, inRange = 0;
  forLanes(all.lanes, [&](unsigned lane) {
    const Inst &of = *all.inst[lane];
    values[lane] = uint32_t(warp.value(of.src[0], lane));
    valueDefined |= warp.definedLanes(of.src[0]) & 1u << lane;
  });
  forLanes(all.lanes, [&](unsigned lane) {
    const Inst &of = *all.inst[lane];
    const auto by = uint32_t(warp.value(of.src[1], lane)) & 31,
               control = uint32_t(warp.value(of.src[2], lane));
    const uint32_t clamp = control & 31, segment = control >> 8 & 31;
    const uint32_t most = (lane & segment) | (clamp & ~segment & 31),
                   least = lane & segment;
    int from = 0;
    bool isIn = false;
    switch (of.kind) {
    case Idx:
      from = int(least | (by & ~segment));
      isIn = from <= int(most);
      break;
    case Bfly:
      from = int(lane ^ by);
      isIn = from <= int(most);
      break;
    case Up:
      from = int(lane) - int(by);
      isIn = from >= int(most);
      break;
    default:
      from = int(lane + by);
      isIn = from <= int(most);
    }
    if (!isIn)
      from = int(lane);
    if (!(all.lanes >> from & 1)) {
      warp.cta.device.report(
          "sync", &warp, &of, lane,
          fmt::format("the value of lane {} is read, which does not take part",
                      from));
    }
    results[lane] = values[size_t(from)];
    resultDefined |= (valueDefined >> from & 1) << lane;
    inRange |= uint32_t(isIn) << lane;
  });
  forLanes(all.lanes, [&](unsigned lane) {
    const Inst &of = *all.inst[lane];
    if (of.dst[0]) {
      warp.set(of.dst[0], lane, results[lane]);
      warp.setDefined(of.dst[0], 1u << lane, resultDefined);
    }
    if (of.dst[1]) {
      warp.setPredicate(of.dst[1], 1u << lane, inRange);
      warp.setDefined(of.dst[1], 1u << lane, kAllLanes);
    }
  });
  return Step::Next;
}

//===----------------------------------------------------------------------===//
// vote, match, redux, elect
//===----------------------------------------------------------------------===//

/// Gives the same or each lane's own result, defined where `isDefined`.
template <typename F>
static void giveAll(Warp &warp, const Together &all, bool isDefined,
                    F function) {
  std::array<uint64_t, kLanes> results{};
  forLanes(all.lanes, [&](unsigned lane) { results[lane] = function(lane); });
  forLanes(all.lanes, [&](unsigned lane) {
    const Reg &to = all.inst[lane]->dst[0];
    warp.set(to, lane, results[lane]);
    warp.setDefined(to, 1u << lane, isDefined ? kAllLanes : 0);
  });
}

/// True if the first source of all lanes is defined.
static bool allDefined(Warp &warp, const Together &all) {
  bool is = true;
  forLanes(all.lanes, [&](unsigned lane) {
    is &= warp.isDefined(all.inst[lane]->src[0], 1u << lane);
  });
  return is;
}

namespace {
enum VoteMode : uint8_t { Ballot, Any, All, Uni };
enum ReduceMode : uint8_t { Add, Min, Max, And, Or, Xor };
} // namespace

static Step vote(Warp &warp, const Inst &inst, uint32_t lanes) {
  Together all;
  if (!gather(warp, inst, lanes, inst.src[1], all))
    return Step::Wait;
  uint32_t yes = 0;
  forLanes(all.lanes, [&](unsigned lane) {
    yes |= warp.predicate(all.inst[lane]->src[0]) & 1u << lane;
  });
  giveAll(warp, all, allDefined(warp, all), [&](unsigned lane) -> uint64_t {
    switch (all.inst[lane]->kind) {
    case Ballot:
      return yes;
    case Any:
      return yes != 0;
    case All:
      return yes == all.lanes;
    default:
      return yes == 0 || yes == all.lanes;
    }
  });
  return Step::Next;
}

static Step match(Warp &warp, const Inst &inst, uint32_t lanes) {
  Together all;
  if (!gather(warp, inst, lanes, inst.src[1], all))
    return Step::Wait;
  giveAll(warp, all, allDefined(warp, all), [&](unsigned lane) {
    uint64_t same = 0;
    forLanes(all.lanes, [&](unsigned other) {
      if (warp.value(all.inst[other]->src[0], other) ==
          warp.value(all.inst[lane]->src[0], lane))
        same |= 1u << other;
    });
    return same;
  });
  return Step::Next;
}

static uint32_t combine(const Inst &inst, uint32_t a, uint32_t b) {
  switch (inst.kind) {
  case Add:
    return a + b;
  case Min:
    return inst.isSigned ? uint32_t(std::min(int32_t(a), int32_t(b)))
                         : std::min(a, b);
  case Max:
    return inst.isSigned ? uint32_t(std::max(int32_t(a), int32_t(b)))
                         : std::max(a, b);
  case And:
    return a & b;
  case Or:
    return a | b;
  default:
    return a ^ b;
  }
}

static Step reduce(Warp &warp, const Inst &inst, uint32_t lanes) {
  Together all;
  if (!gather(warp, inst, lanes, inst.src[1], all))
    return Step::Wait;
  std::optional<uint32_t> result;
  forLanes(all.lanes, [&](unsigned lane) {
    const auto value = uint32_t(warp.value(all.inst[lane]->src[0], lane));
    result = result ? combine(inst, *result, value) : value;
  });
  giveAll(warp, all, allDefined(warp, all),
          [&](unsigned) -> uint64_t { return *result; });
  return Step::Next;
}

/// The lowest lane of the mask.
static Step elect(Warp &warp, const Inst &inst, uint32_t lanes) {
  Together all;
  if (!gather(warp, inst, lanes, inst.src[0], all))
    return Step::Wait;
  const auto leader = unsigned(std::countr_zero(all.lanes));
  forLanes(all.lanes, [&](unsigned lane) {
    const Inst &of = *all.inst[lane];
    if (of.dst[0]) {
      warp.set(of.dst[0], lane, leader);
      warp.setDefined(of.dst[0], 1u << lane, kAllLanes);
    }
    warp.setPredicate(of.dst[1], 1u << lane, 1u << leader);
    warp.setDefined(of.dst[1], 1u << lane, kAllLanes);
  });
  return Step::Next;
}

static Step activeMask(Warp &warp, const Inst &inst, uint32_t lanes) {
  forLanes(lanes, [&](unsigned lane) { warp.set(inst.dst[0], lane, lanes); });
  return Step::Next;
}

static Step syncWarp(Warp &warp, const Inst &inst, uint32_t lanes) {
  Together all;
  if (!gather(warp, inst, lanes, inst.src[0], all))
    return Step::Wait;
  if (warp.cta.device.settings.checkRaces) {
    auto joined = std::make_shared<Clocks>();
    joined->cta = warp.cta.id;
    warp.clocks.release(all.lanes, *joined);
    warp.clocks.replace(all.lanes, joined);
  }
  return Step::Next;
}

template <typename Names>
static uint8_t indexOf(const NameParts &name, const Names &names) {
  for (const std::string_view &one : names)
    if (name.has(one))
      return uint8_t(&one - std::begin(names));
  throw PtxError("mode");
}

static void noteExchange(Inst &inst) {
  inst.taint = Taint::Own;
  inst.mayWait = true;
}
static void noteShuffle(Inst &inst, const NameParts &name) {
  static constexpr std::string_view kModes[] = {"idx", "bfly", "up", "down"};
  inst.kind = indexOf(name, kModes);
  noteExchange(inst);
}
static void noteVote(Inst &inst, const NameParts &name) {
  static constexpr std::string_view kModes[] = {"ballot", "any", "all", "uni"};
  inst.kind = indexOf(name, kModes);
  noteExchange(inst);
}
static void noteReduce(Inst &inst, const NameParts &name) {
  static constexpr std::string_view kModes[] = {"add", "min", "max",
                                                "and", "or",  "xor"};
  inst.kind = indexOf(name, kModes);
  inst.isSigned = name.last() == "s32";
  noteExchange(inst);
}
static void noteOther(Inst &inst, const NameParts &) { noteExchange(inst); }

void moec::emulator::addLaneRows(Rows &rows) {
  rows.insert(
      rows.end(),
      {{"shfl.sync.idx|bfly|up|down.b32", "d4|p s4 s4 s4 s4", shuffle,
        noteShuffle},
       {"vote.sync.any|all|uni.pred", "d0 s0 s4", vote, noteVote},
       {"vote.sync.ballot.b32", "d4 s0 s4", vote, noteVote},
       {"match.any.sync.b32", "d4 s4 s4", match, noteOther},
       {"match.any.sync.b64", "d4 s8 s4", match, noteOther},
       {"redux.sync.add|min|max.s32|u32", "d4 s4 s4", reduce, noteReduce},
       {"redux.sync.and|or|xor.b32", "d4 s4 s4", reduce, noteReduce},
       {"elect.sync", "d4|p s4", elect, noteOther},
       {"activemask.b32", "d4", activeMask},
       {"bar.warp.sync", "s4", syncWarp, noteOther}});
}
