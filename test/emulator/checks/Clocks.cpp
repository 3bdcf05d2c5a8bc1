//===- Clocks.cpp - what threads know of each other -----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Joins of vector clocks, and what lanes release and acquire.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/checks/Clocks.h"

#include <algorithm>
#include <bit>

using namespace moec::emulator;

static void joinVectors(ClockVector &into, const ClockVector &from) {
  if (into.size() < from.size())
    into.resize(from.size());
  for (size_t i = 0; i < from.size(); ++i)
    into[i] = std::max(into[i], from[i]);
}

/// True if `clocks` has all that `other` has.
static bool covers(const ClockVector &clocks, const ClockVector &other) {
  const size_t common = std::min(clocks.size(), other.size());
  bool isBehind = false;
  for (size_t i = 0; i < common; ++i)
    isBehind |= clocks[i] < other[i];
  return !isBehind &&
         std::all_of(other.begin() + ptrdiff_t(common), other.end(),
                     [](uint32_t clock) { return clock == 0; });
}

static void joinOther(Clocks::ClocksByCta &clocks, uint64_t ofCta,
                      const std::shared_ptr<const ClockVector> &from) {
  auto &known = clocks[ofCta];
  // Equal knowledge is shared: later joins see it by the pointer.
  if (!known || (known != from && covers(*from, *known))) {
    known = from;
  } else if (known != from && !covers(*known, *from)) {
    auto joined = std::make_shared<ClockVector>(*known);
    joinVectors(*joined, *from);
    known = std::move(joined);
  }
}

/// The same of a CTA's own knowledge.
static void joinOwn(Clocks::ClocksByCta &clocks, uint64_t ofCta,
                    const ClockVector &from) {
  auto it = clocks.find(ofCta);
  if (it == clocks.end() || !covers(*it->second, from))
    joinOther(clocks, ofCta, std::make_shared<ClockVector>(from));
}

void Clocks::join(const Clocks &other) {
  for (unsigned gpu = 0; gpu < kMaxGpus; ++gpu)
    launches[gpu] = std::max(launches[gpu], other.launches[gpu]);
  if (other.cta == cta) {
    joinVectors(own, other.own);
    joinVectors(proxy, other.proxy);
  } else if (other.cta != 0) {
    joinOwn(others, other.cta, other.own);
    if (!other.proxy.empty())
      joinOwn(otherProxies, other.cta, other.proxy);
  }
  for (const auto &[ofCta, known] : other.others)
    if (ofCta == cta)
      joinVectors(own, *known);
    else
      joinOther(others, ofCta, known);
  for (const auto &[ofCta, known] : other.otherProxies)
    if (ofCta == cta)
      joinVectors(proxy, *known);
    else
      joinOther(otherProxies, ofCta, known);
}

/// True if the vectors by CTA, and `own` of `cta`, have all of `others`.
static bool covers(const ClockVector &own, uint64_t cta,
                   const Clocks::ClocksByCta &clocks,
                   const Clocks::ClocksByCta &others) {
  auto mine = clocks.begin();
  return std::ranges::all_of(others, [&](const auto &other) {
    const auto &[ofCta, known] = other;
    if (ofCta == cta)
      return covers(own, *known);
    while (mine != clocks.end() && mine->first < ofCta)
      ++mine;
    return mine != clocks.end() && mine->first == ofCta &&
           (mine->second == known || covers(*mine->second, *known));
  });
}

bool Clocks::hasAllOf(const Clocks &other) const {
  for (unsigned gpu = 0; gpu < kMaxGpus; ++gpu)
    if (launches[gpu] < other.launches[gpu])
      return false;
  if (other.cta == cta) {
    if (!covers(own, other.own) || !covers(proxy, other.proxy))
      return false;
  } else if (other.cta != 0) {
    const auto known = others.find(other.cta);
    const auto ofProxy = otherProxies.find(other.cta);
    if (known == others.end() || !covers(*known->second, other.own) ||
        (!other.proxy.empty() && (ofProxy == otherProxies.end() ||
                                  !covers(*ofProxy->second, other.proxy))))
      return false;
  }
  return covers(own, cta, others, other.others) &&
         covers(proxy, cta, otherProxies, other.otherProxies);
}

static void raiseIn(ClockVector &clocks, uint32_t thread, uint32_t clock) {
  if (clocks.size() <= thread)
    clocks.resize(thread + 1);
  clocks[thread] = std::max(clocks[thread], clock);
}

void Clocks::raise(uint32_t thread, uint32_t clock) {
  raiseIn(own, thread, clock);
}

void Clocks::raiseProxy(uint32_t thread, uint32_t clock) {
  raiseIn(proxy, thread, clock);
}

/// True if the vector of a CTA, `own` if it is `cta`, knows the clock.
static bool isKnown(const ClockVector &own, uint64_t cta,
                    const Clocks::ClocksByCta &others, uint64_t ofCta,
                    uint32_t thread, uint32_t clock) {
  const ClockVector *known = &own;
  if (ofCta != cta) {
    auto it = others.find(ofCta);
    if (it == others.end())
      return false;
    known = it->second.get();
  }
  return thread < known->size() && (*known)[thread] >= clock;
}

bool Clocks::knows(uint64_t ofCta, uint32_t thread, uint32_t clock) const {
  return isKnown(own, cta, others, ofCta, thread, clock);
}

bool Clocks::proxyKnows(uint64_t ofCta, uint32_t thread, uint32_t clock) const {
  return isKnown(proxy, cta, otherProxies, ofCta, thread, clock);
}

void LaneClocks::start(unsigned first, ClocksPointer view) {
  firstThread = first;
  clocks.fill(1);
  views.fill(std::move(view));
}

/// Calls `function` with the lanes that share a view, one view after the other.
template <typename F>
static void forViews(const std::array<ClocksPointer, LaneClocks::kLanes> &views,
                     uint32_t lanes, F function) {
  while (lanes) {
    const auto first = size_t(std::countr_zero(lanes));
    uint32_t same = 0;
    for (uint32_t rest = lanes; rest; rest &= rest - 1)
      if (const auto lane = size_t(std::countr_zero(rest));
          views[lane] == views[first])
        same |= 1u << lane;
    lanes &= ~same;
    function(same, ClocksPointer(views[first]));
  }
}

void LaneClocks::release(uint32_t lanes, Clocks &into) {
  Clocks *same = nullptr;
  Clocks mine;
  forViews(views, lanes, [&](uint32_t, const ClocksPointer &view) {
    mine.cta = view->cta;
    same = into.cta == view->cta ? &into : &mine;
    same->join(*view);
  });
  for (uint32_t rest = lanes; rest; rest &= rest - 1) {
    const auto lane = unsigned(std::countr_zero(rest));
    same->raise(firstThread + lane, clocks[lane]++);
  }
  if (same == &mine)
    into.join(mine);
}

void LaneClocks::acquire(uint32_t lanes, const Clocks &from) {
  forViews(views, lanes, [&](uint32_t ofView, const ClocksPointer &view) {
    if (view->hasAllOf(from))
      return; // as in a loop that waits
    auto joined = std::make_shared<Clocks>(*view);
    joined->join(from);
    replace(ofView, joined);
  });
}

void LaneClocks::replace(uint32_t lanes, const ClocksPointer &from) {
  for (; lanes; lanes &= lanes - 1)
    views[size_t(std::countr_zero(lanes))] = from;
}

void LaneClocks::fenceProxy(uint32_t lanes) {
  forViews(views, lanes, [&](uint32_t ofView, const ClocksPointer &view) {
    auto fenced = std::make_shared<Clocks>(*view);
    joinVectors(fenced->proxy, fenced->own);
    for (const auto &[ofCta, known] : fenced->others)
      joinOther(fenced->otherProxies, ofCta, known);
    // The view is shared: a lane's fence counts for its neighbours, too, which
    // need a barrier of the warp for the writes themselves.
    for (uint32_t rest = ofView; rest; rest &= rest - 1) {
      const auto lane = unsigned(std::countr_zero(rest));
      fenced->raiseProxy(firstThread + lane, clocks[lane]++);
    }
    replace(ofView, fenced);
  });
}

void LaneClocks::learn(uint32_t lanes, uint32_t slot, uint32_t clock) {
  forViews(views, lanes, [&](uint32_t ofView, const ClocksPointer &view) {
    auto learned = std::make_shared<Clocks>(*view);
    learned->raise(slot, clock);
    replace(ofView, learned);
  });
}

void LaneClocks::fence(uint32_t lanes, bool isSystem) {
  for (uint32_t rest = lanes; rest; rest &= rest - 1) {
    const auto lane = size_t(std::countr_zero(rest));
    if (observed[lane]) {
      acquire(1u << lane, *observed[lane]);
      observed[lane] = nullptr;
    }
    if (isSystem && observedOther[lane]) {
      acquire(1u << lane, *observedOther[lane]);
      observedOther[lane] = nullptr;
    }
  }
  forViews(views, lanes, [&](uint32_t ofView, const ClocksPointer &view) {
    for (uint32_t rest = ofView; rest; rest &= rest - 1) {
      const auto lane = unsigned(std::countr_zero(rest));
      auto fenced = std::make_shared<Clocks>(*view);
      fenced->raise(firstThread + lane, clocks[lane]++);
      fences[lane] = std::move(fenced);
      if (isSystem)
        systemFences[lane] = fences[lane];
    }
  });
}

void LaneClocks::joinOnce(Joined &last, ClocksPointer &view, const Clocks &from,
                          uint64_t version) {
  if (last.from != &from || last.version != version || last.before != view) {
    last = {view, view, &from, version};
    if (!view || !view->hasAllOf(from)) {
      auto joined =
          view ? std::make_shared<Clocks>(*view) : std::make_shared<Clocks>();
      joined->join(from);
      last.after = std::move(joined);
    }
  }
  view = last.after;
}

void LaneClocks::acquire(unsigned lane, const Clocks &from, uint64_t version) {
  joinOnce(acquired, views[lane], from, version);
}

void LaneClocks::observe(unsigned lane, const Clocks &from, uint64_t version,
                         bool isOther) {
  joinOnce(seen, (isOther ? observedOther : observed)[lane], from, version);
}

void SyncVariables::release(uint64_t address, const Release &what, bool kept) {
  ++changes;
  std::vector<Release> &releases = variables[address];
  if (!kept)
    releases.clear();
  for (Release &earlier : releases)
    if (earlier.gpu == what.gpu && earlier.isSystem == what.isSystem) {
      earlier.clocks.join(what.clocks);
      return;
    }
  releases.push_back({what.gpu, what.isSystem, {}});
  releases.back().clocks.join(what.clocks);
}

const std::vector<SyncVariables::Release> &
SyncVariables::find(uint64_t address) const {
  static const std::vector<Release> kNothing;
  auto it = variables.find(address);
  return it == variables.end() ? kNothing : it->second;
}
