//===- Barrier.cpp - barriers of CTAs and clusters ------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// bar, barrier and barrier.cluster. Threads count, not warps: one that has
// exited is not waited for where the barrier is for all.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/instructions/Converged.h"
#include "test/emulator/machine/Memory.h"
#include "test/emulator/parse/Rows.h"

#include <fmt/core.h>

using namespace moec::emulator;

namespace {
enum BarrierForm : uint8_t { Sync, Arrive, RedAnd, RedOr, RedPopc };
} // namespace

/// Threads that have to come.
static uint32_t expectedOf(const Cta &cta, const NamedBarrier &barrier) {
  return barrier.isDefault ? cta.liveThreads() : barrier.expected;
}

static void completeIfAll(Cta &cta, NamedBarrier &barrier) {
  if (!barrier.arrived || barrier.arrived < expectedOf(cta, barrier))
    return;
  barrier.lastVotes = barrier.votes;
  barrier.lastArrived = barrier.arrived;
  if (cta.device.settings.checkRaces)
    barrier.released = std::make_shared<Clocks>(std::move(barrier.pending));
  barrier.pending = {};
  barrier.arrived = barrier.votes = barrier.expected = 0;
  ++barrier.phase;
  cta.device.noteEffect();
}

static void arrive(Warp &warp, const Inst &inst, uint32_t lanes,
                   NamedBarrier &barrier) {
  Cta &cta = warp.cta;
  const auto lane = unsigned(std::countr_zero(lanes));
  const uint32_t expected =
      inst.src[1] ? uint32_t(warp.value(inst.src[1], lane)) : cta.threads;
  if (expected == 0 || expected % kLanes || expected > cta.threads)
    cta.device.report("sync", &warp, &inst, lane,
                      fmt::format("a barrier of {} threads in a CTA of {}",
                                  expected, cta.threads));
  if (barrier.arrived && barrier.expected != expected)
    cta.device.report("sync", &warp, &inst, lane,
                      fmt::format("the barrier is of {} threads here and of {} "
                                  "for those that have arrived",
                                  expected, barrier.expected));
  barrier.expected = expected;
  barrier.isDefault = !inst.src[1];
  // With a number of threads, an aligned arrival counts as a whole warp.
  barrier.arrived +=
      inst.flag && inst.src[1] ? kLanes : uint32_t(std::popcount(lanes));
  if (inst.kind >= RedAnd)
    barrier.votes +=
        uint32_t(std::popcount(warp.predicate(inst.src[2]) & lanes));
  if (barrier.arrived > std::max(expected, cta.liveThreads()))
    cta.device.report("sync", &warp, &inst, lane,
                      fmt::format("{} threads arrive at a barrier of {}",
                                  barrier.arrived, expected));
  if (cta.device.settings.checkRaces) {
    barrier.pending.cta = cta.id;
    warp.clocks.release(lanes, barrier.pending);
  }
}

static Step barrier(Warp &warp, const Inst &inst, uint32_t lanes) {
  Cta &cta = warp.cta;
  Group &group = *warp.current;
  const auto lane = unsigned(std::countr_zero(lanes));
  requireDefined(warp, inst, inst.src[0], lanes, "the barrier's number");
  const auto number = uint32_t(warp.value(inst.src[0], lane));
  if (number >= cta.barriers.size()) {
    cta.device.report("sync", &warp, &inst, lane,
                      fmt::format("barrier {} of 16", number));
    return Step::Next;
  }
  NamedBarrier &named = cta.barriers[number];
  if (!group.arrived) {
    if (inst.flag && !isConverged(warp, lanes))
      return Step::Wait;
    group.ticket = named.phase;
    arrive(warp, inst, lanes, named);
    group.arrived = true;
  }
  completeIfAll(cta, named);
  if (inst.kind == Arrive) {
    group.arrived = false;
    return Step::Next;
  }
  if (named.phase == group.ticket)
    return Step::Wait;
  group.arrived = false;
  if (cta.device.settings.checkRaces)
    warp.clocks.replace(lanes, named.released);
  if (inst.kind == RedPopc)
    forLanes(lanes, [&](unsigned one) {
      warp.set(inst.dst[0], one, named.lastVotes);
    });
  else if (inst.kind >= RedAnd)
    warp.setPredicate(inst.dst[0], lanes,
                      (inst.kind == RedOr
                           ? named.lastVotes != 0
                           : named.lastVotes == named.lastArrived)
                          ? kAllLanes
                          : 0);
  if (inst.dst[0])
    warp.setDefined(inst.dst[0], lanes, kAllLanes);
  return Step::Next;
}

static void noteBarrier(Inst &inst, const NameParts &name) {
  inst.kind = name.has("arrive") ? Arrive
              : name.has("and")  ? RedAnd
              : name.has("or")   ? RedOr
              : name.has("popc") ? RedPopc
                                 : Sync;
  // bar is barrier.aligned.
  inst.flag = name.parts[0] == "bar" || name.has("aligned");
  inst.mayWait = true;
  inst.taint = Taint::Own;
  // The predicate of a reduction without a number of threads.
  if (inst.kind >= RedAnd && !inst.src[2])
    std::swap(inst.src[1], inst.src[2]);
}

//===----------------------------------------------------------------------===//
// Clusters
//===----------------------------------------------------------------------===//

static uint32_t liveThreads(const Cluster &cluster) {
  uint32_t count = 0;
  for (const auto &cta : cluster.ctas)
    count += cta->liveThreads();
  return count;
}

static void completeIfAll(Cluster &cluster) {
  if (!cluster.arrived || cluster.arrived < liveThreads(cluster))
    return;
  cluster.arrived = 0;
  ++cluster.phase;
  cluster.released = std::make_shared<Clocks>(std::move(cluster.pending));
  cluster.pending = {};
  cluster.ctas[0]->device.noteEffect();
}

static Step arriveCluster(Warp &warp, const Inst &inst, uint32_t lanes) {
  if (!isConverged(warp, lanes))
    return Step::Wait;
  Cluster &cluster = warp.cta.cluster;
  if (warp.clusterArrived)
    warp.cta.device.report("sync", &warp, &inst, {},
                           "a second arrival without a wait");
  warp.clusterArrived = true;
  warp.clusterTicket = cluster.phase;
  cluster.arrived += uint32_t(std::popcount(lanes));
  if (warp.cta.device.settings.checkRaces && !inst.flag)
    warp.clocks.release(lanes, cluster.pending);
  completeIfAll(cluster);
  return Step::Next;
}

static Step waitCluster(Warp &warp, const Inst &inst, uint32_t lanes) {
  if (!isConverged(warp, lanes))
    return Step::Wait;
  Cluster &cluster = warp.cta.cluster;
  if (!warp.clusterArrived)
    warp.cta.device.report("sync", &warp, &inst, {},
                           "a wait without an arrival");
  completeIfAll(cluster);
  if (warp.clusterArrived && warp.clusterTicket == cluster.phase)
    return Step::Wait;
  warp.clusterArrived = false;
  if (warp.cta.device.settings.checkRaces && cluster.released)
    warp.clocks.acquire(lanes, *cluster.released);
  return Step::Next;
}

static void noteCluster(Inst &inst, const NameParts &name) {
  inst.mayWait = true;
  inst.flag = name.has("relaxed");
}

void moec::emulator::addBarrierRows(Rows &rows) {
  rows.insert(
      rows.end(),
      {{"bar.?cta.sync", "s4 [s4]", barrier, noteBarrier},
       {"bar.?cta.arrive", "s4 s4", barrier, noteBarrier},
       {"bar.?cta.red.and|or.pred", "d0 s4 s0", barrier, noteBarrier},
       {"bar.?cta.red.and|or.pred", "d0 s4 s4 s0", barrier, noteBarrier},
       {"bar.?cta.red.popc.u32", "d4 s4 s0", barrier, noteBarrier},
       {"bar.?cta.red.popc.u32", "d4 s4 s4 s0", barrier, noteBarrier},
       {"barrier.?cta.sync.?aligned", "s4 [s4]", barrier, noteBarrier},
       {"barrier.?cta.arrive.?aligned", "s4 s4", barrier, noteBarrier},
       {"barrier.cluster.arrive.?release|relaxed.aligned", "", arriveCluster,
        noteCluster},
       {"barrier.cluster.wait.?acquire.aligned", "", waitCluster,
        noteCluster}});
}
