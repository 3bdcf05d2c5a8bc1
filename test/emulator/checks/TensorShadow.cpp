//===- TensorShadow.cpp - order of accesses of tensor memory --------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An access is known to have ended by what the other one's thread learned from
// barriers and flags before its last tcgen05.fence::after_thread_sync. Pairs of
// one thread that the manual calls pipelined need nothing.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/checks/TensorShadow.h"

#include "test/emulator/machine/Machine.h"

#include <fmt/core.h>

#include <algorithm>

using namespace moec::emulator;

static constexpr unsigned kLaneGroup = 16,
                          kGroups = TensorMemory::kLanes / kLaneGroup;

struct TensorShadow::Cell {
  TensorAccess write;
  std::vector<TensorAccess> reads;
};

TensorShadow::TensorShadow() : cells(kGroups * TensorMemory::kColumns) {}
TensorShadow::~TensorShadow() = default;

static bool isOfWarp(const TensorAccess &access) {
  return access.role == TensorRole::Load || access.role == TensorRole::Store;
}

static const char *nameOf(const TensorAccess &access) {
  switch (access.role) {
  case TensorRole::Load:
    return "load";
  case TensorRole::Store:
    return "store";
  case TensorRole::Copy:
    return "copy";
  default:
    return "multiply";
  }
}

/// True if the hardware executes both in the order in which a thread issued
/// them. The manual does not list a copy after the multiply that reads what it
/// overwrites: public kernels depend on it.
static bool arePipelined(const TensorAccess &earlier, const TensorAccess &now) {
  if (earlier.cta != now.cta || earlier.agent != now.agent || isOfWarp(now))
    return false;
  if (earlier.role == TensorRole::Accumulator)
    return now.role == TensorRole::Accumulator && now.shape == earlier.shape;
  return true;
}

namespace {
/// Says once for each earlier access whether it has ended.
class Checker {
public:
  Checker(Warp &warp, const Inst &inst, uint32_t lanes, Cta &cta,
          const TensorAccess &now)
      : warp(warp), inst(inst), lanes(lanes), cta(cta), now(now) {}

  void check(const TensorAccess &earlier, const char *what, unsigned lane,
             unsigned column) {
    if (!earlier.cta ||
        (earlier.cta == last.cta && earlier.agent == last.agent &&
         earlier.number == last.number && earlier.role == last.role))
      return;
    last = earlier;
    if (arePipelined(earlier, now))
      return;
    const bool isOwn = earlier.cta == now.cta && earlier.agent == now.agent;
    if (isOwn && isOfWarp(earlier)) {
      if (warp.tensorWork.isDone(earlier.number))
        return;
      report("async",
             fmt::format("{} before a tcgen05.wait::{} for", what,
                         waitOf(earlier)),
             earlier, lane, column);
      return;
    }
    const bool isOfSameWarp =
        earlier.cta == warp.cta.id && earlier.thread / kLanes == warp.index;
    if (isOfSameWarp && isOfWarp(earlier)) {
      // A lane of the warp that has waited issues the next work.
      if (!warp.tensorWork.isDone(earlier.number))
        report("async",
               fmt::format("{} before a tcgen05.wait::{} for", what,
                           waitOf(earlier)),
               earlier, lane, column);
      return;
    }
    bool isKnown = true, isFenced = true, isSynchronized = true;
    forLanes(lanes, [&](unsigned one) {
      const Clocks &view = warp.clocks.view(one);
      const ClocksPointer &fenced = warp.tensorWork.views[one];
      isKnown &= view.knows(earlier.cta, earlier.agent, earlier.number);
      isSynchronized &= view.knows(earlier.cta, earlier.thread, earlier.clock);
      isFenced &=
          fenced && fenced->knows(earlier.cta, earlier.agent, earlier.number);
    });
    if (isKnown && isFenced)
      return;
    if (isKnown)
      report("tcgen05",
             fmt::format("{} without a tcgen05.fence::after_thread_sync, after",
                         what),
             earlier, lane, column);
    else if (!isOfWarp(earlier))
      report("race",
             fmt::format("{} that no commit to an mbarrier orders after", what),
             earlier, lane, column);
    else if (isSynchronized)
      report("tcgen05",
             fmt::format("{} without a tcgen05.wait::{} and a "
                         "tcgen05.fence::before_thread_sync, after",
                         what, waitOf(earlier)),
             earlier, lane, column);
    else
      report("race", fmt::format("{} without synchronization after", what),
             earlier, lane, column);
  }

  void checkEnded(const TensorAccess &earlier, unsigned lane, unsigned column) {
    if (!earlier.cta)
      return;
    if (isOfWarp(earlier)) {
      for (const auto &other : cta.warps)
        if (other->tensorWork.agent == earlier.agent &&
            !other->tensorWork.isDone(earlier.number))
          report("async",
                 fmt::format("the column is given back before a "
                             "tcgen05.wait::{} for",
                             waitOf(earlier)),
                 earlier, lane, column);
      return;
    }
    forLanes(lanes, [&](unsigned one) {
      if (!warp.clocks.view(one).knows(earlier.cta, earlier.agent,
                                       earlier.number))
        report("async",
               "the column is given back, which no commit to an mbarrier "
               "orders after",
               earlier, lane, column);
    });
  }

private:
  static const char *waitOf(const TensorAccess &access) {
    return access.role == TensorRole::Load ? "ld" : "st";
  }

  void report(const char *kind, const std::string &what,
              const TensorAccess &earlier, unsigned lane, unsigned column) {
    const CtaRecord &record = cta.device.recordOf(earlier.cta);
    const Inst &other = record.kernel->code[earlier.site];
    cta.device.report(
        kind, &warp, &inst, {},
        fmt::format("tensor memory of CTA {}, lanes {} to {}, column {}: {} "
                    "the {} by {} at {}: {}",
                    cta.index, lane, lane + kLaneGroup - 1, column, what,
                    nameOf(earlier),
                    describeThread(record.index, earlier.thread),
                    record.kernel->placeOf(other), other.text.substr(0, 80)));
  }

  Warp &warp;
  const Inst &inst;
  uint32_t lanes;
  Cta &cta;
  const TensorAccess &now;
  TensorAccess last;
};
} // namespace

void TensorShadow::access(Warp &warp, const Inst &inst, uint32_t lanes,
                          Cta &cta, const TensorAccess &now,
                          const TensorArea &area, bool isWrite) {
  Checker writes(warp, inst, lanes, cta, now),
      reads(warp, inst, lanes, cta, now);
  for (unsigned column = area.column; column < area.column + area.columns;
       ++column)
    for (unsigned lane = area.lane / kLaneGroup * kLaneGroup;
         lane < area.lane + area.lanes; lane += kLaneGroup) {
      Cell &cell = cells[column * kGroups + lane / kLaneGroup];
      writes.check(cell.write, isWrite ? "write" : "read", lane, column);
      if (isWrite) {
        for (const TensorAccess &read : cell.reads)
          reads.check(read, "write", lane, column);
        cell.reads.clear();
        cell.write = now;
        continue;
      }
      auto same = std::ranges::find_if(cell.reads, [&](const auto &read) {
        return read.cta == now.cta && read.agent == now.agent;
      });
      if (same == cell.reads.end())
        cell.reads.push_back(now);
      else
        *same = now;
    }
}

void TensorShadow::release(Warp &warp, const Inst &inst, uint32_t lanes,
                           Cta &cta, unsigned column, unsigned columns) {
  const TensorAccess none;
  Checker checker(warp, inst, lanes, cta, none);
  for (unsigned at = column; at < column + columns; ++at)
    for (unsigned group = 0; group < kGroups; ++group) {
      const Cell &cell = cells[at * kGroups + group];
      checker.checkEnded(cell.write, group * kLaneGroup, at);
      for (const TensorAccess &read : cell.reads)
        checker.checkEnded(read, group * kLaneGroup, at);
    }
}

void TensorShadow::clear(unsigned column, unsigned columns) {
  std::fill_n(cells.begin() + column * kGroups, columns * kGroups, Cell{});
}
