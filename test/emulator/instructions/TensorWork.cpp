//===- TensorWork.cpp - asynchronous work of tensor cores -----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Queues of threads, tcgen05.commit and the fences around barriers. Work of one
// thread lands in the order of issue; the checkers report what the hardware may
// do in another order.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/instructions/TensorWork.h"

#include "test/emulator/instructions/Mbarrier.h"
#include "test/emulator/machine/Memory.h"

#include <fmt/core.h>

using namespace moec::emulator;

void moec::emulator::noteGroup(Inst &inst, const NameParts &name) {
  inst.option[0] = name.has("cta_group::2") ? 2 : 1;
}

Cta *moec::emulator::checkGroup(Warp &warp, const Inst &inst) {
  Cta &cta = warp.cta;
  const uint32_t group = inst.option[0];
  if (cta.tensor.group && cta.tensor.group != group)
    cta.device.report("tcgen05", &warp, &inst, {},
                      fmt::format("cta_group::{} in a kernel that has used "
                                  "cta_group::{}",
                                  group, cta.tensor.group));
  cta.tensor.group = group;
  if (group == 1)
    return nullptr;
  Cta *peer = cta.peer(cta.rank ^ 1);
  if (peer && !peer->hasEnded())
    return peer;
  cta.device.report("tcgen05", &warp, &inst, {},
                    fmt::format("cta_group::2, but the other CTA of the pair "
                                "{}",
                                peer ? "has ended" : "does not exist"));
  return nullptr;
}

bool moec::emulator::ownsColumns(Warp &warp, const Inst &inst, const Cta &cta,
                                 unsigned column, unsigned columns) {
  const TensorMemory *memory = cta.tensor.memory;
  for (unsigned at = column; at < column + columns; ++at) {
    const uint64_t owner =
        memory && at < TensorMemory::kColumns ? memory->ownerOf(at) : 0;
    if (owner == cta.id)
      continue;
    const std::string who =
        owner ? fmt::format("CTA {} has", cta.device.recordOf(owner).index)
              : "nobody has";
    cta.device.report("tcgen05", &warp, &inst, {},
                      fmt::format("columns {} to {} of tensor memory: CTA {} "
                                  "has not allocated column {}, which {}",
                                  column, column + columns - 1, cta.index, at,
                                  who));
    return false;
  }
  return true;
}

bool moec::emulator::uniformAddress(Warp &warp, const Inst &inst,
                                    uint32_t lanes,
                                    const MemoryOperand &operand,
                                    uint32_t &address) {
  requireDefined(warp, inst, operand.base, lanes, "the address");
  const auto first = unsigned(std::countr_zero(lanes));
  address = uint32_t(warp.addressOf(operand, first));
  bool isUniform = true;
  forLanes(lanes, [&](unsigned lane) {
    isUniform &= uint32_t(warp.addressOf(operand, lane)) == address;
  });
  if (!isUniform)
    warp.cta.device.report("tcgen05", &warp, &inst, {},
                           "lanes of the warp have different addresses of "
                           "tensor memory");
  return isUniform;
}

TensorThread &moec::emulator::issuerOf(Warp &warp, unsigned lane) {
  Cta &cta = warp.cta;
  TensorThread &thread = cta.tensor.threads[warp.threadOf(lane)];
  if (!thread.agent)
    thread.agent = cta.threads + ++cta.clockSlots;
  return thread;
}

TensorAccess moec::emulator::issuedAccess(Warp &warp, const Inst &inst,
                                          unsigned lane, TensorRole role) {
  const TensorThread &thread = issuerOf(warp, lane);
  TensorAccess access;
  access.cta = warp.cta.id;
  access.agent = thread.agent;
  access.number = thread.commit;
  access.thread = warp.threadOf(lane);
  access.clock = warp.clocks.clock(lane);
  access.site = inst.id;
  access.role = role;
  return access;
}

void moec::emulator::noteAccess(Warp &warp, const Inst &inst, unsigned lane,
                                Cta &cta, const TensorAccess &access,
                                const TensorArea &area, bool isWrite) {
  if (cta.device.settings.checkRaces)
    cta.tensor.memory->shadow.access(warp, inst, 1u << lane, cta, access, area,
                                     isWrite);
}

/// Lands the oldest work of a thread.
static void queueWork(Warp &warp, const Inst &inst, TensorThread &thread,
                      std::function<void()> run) {
  Cta &cta = warp.cta;
  if (cta.device.settings.timing == Timing::AtOnce)
    return run();
  thread.queue.push_back(std::move(run));
  cta.events.push_back({[&thread] {
                          const auto work = std::move(thread.queue.front());
                          thread.queue.pop_front();
                          work();
                        },
                        &warp, &inst});
}

void moec::emulator::issueWork(Warp &warp, const Inst &inst, unsigned lane,
                               std::function<void()> run) {
  TensorThread &thread = issuerOf(warp, lane);
  thread.uncommitted = &inst;
  queueWork(warp, inst, thread, std::move(run));
}

//===----------------------------------------------------------------------===//
// Commits
//===----------------------------------------------------------------------===//

/// One arrival at the mbarrier of each CTA of the mask once all earlier work of
/// the thread has ended. flag: the mask is an operand.
static Step commit(Warp &warp, const Inst &inst, uint32_t lanes) {
  requireDefined(warp, inst, inst.memory[0].base, lanes, "the address");
  requireDefined(warp, inst, inst.src[0], lanes, "the mask");
  checkGroup(warp, inst);
  forIssuer(warp, inst, lanes, [&](unsigned lane) {
    Cta &cta = warp.cta;
    const auto address = uint32_t(warp.addressOf(inst.memory[0], lane));
    std::vector<uint32_t> barriers = {address};
    if (inst.flag) {
      barriers.clear();
      const auto mask = uint32_t(warp.value(inst.src[0], lane));
      for (uint32_t rank = 0; rank < 16; ++rank)
        if (mask >> rank & 1)
          barriers.push_back((address & kOffsetMask) | rank << kRankShift);
    }
    TensorThread &thread = issuerOf(warp, lane);
    Clocks what;
    what.cta = cta.id;
    if (cta.device.settings.checkRaces) {
      warp.clocks.release(1u << lane, what);
      what.raise(thread.agent, thread.commit);
      if (warp.tensorWork.agent)
        what.raise(warp.tensorWork.agent, warp.tensorWork.doneUpTo());
    }
    ++thread.commit;
    thread.uncommitted = nullptr;
    for (uint32_t barrier : barriers)
      findMbarrier(warp, inst, lane, barrier, nullptr);
    queueWork(warp, inst, thread, [&warp, &inst, barriers, what] {
      for (uint32_t barrier : barriers) {
        Cta *of = warp.cta.peer(barrier >> kRankShift);
        if (!of)
          continue;
        auto found = of->mbarriers.find(barrier & kOffsetMask);
        if (found != of->mbarriers.end() && found->second.valid)
          arriveAt(warp, inst, *of, found->second, 1, what);
      }
    });
  });
  return Step::Next;
}

//===----------------------------------------------------------------------===//
// Fences
//===----------------------------------------------------------------------===//

static Step fenceBefore(Warp &warp, const Inst &, uint32_t lanes) {
  if (warp.tensorWork.agent && warp.cta.device.settings.checkRaces)
    warp.clocks.learn(lanes, warp.tensorWork.agent, warp.tensorWork.doneUpTo());
  return Step::Next;
}

static Step fenceAfter(Warp &warp, const Inst &, uint32_t lanes) {
  forLanes(lanes, [&](unsigned lane) {
    warp.tensorWork.views[lane] = warp.clocks.viewPointer(lane);
  });
  return Step::Next;
}

void moec::emulator::addTensorWorkRows(Rows &rows) {
  const std::string commits = "tcgen05.commit." + kCtaGroups +
                              ".mbarrier::arrive::one.?shared::cluster.";
  rows.insert(rows.end(),
              {{commits + "b64", "m", commit,
                [](Inst &inst, const NameParts &name) {
                  noteGroup(inst, name);
                  inst.taint = Taint::Own;
                }},
               {commits + "multicast::cluster.b64", "m s2", commit,
                [](Inst &inst, const NameParts &name) {
                  noteGroup(inst, name);
                  inst.taint = Taint::Own;
                  inst.flag = true;
                }},
               {"tcgen05.fence::before_thread_sync", "", fenceBefore},
               {"tcgen05.fence::after_thread_sync", "", fenceAfter}});
}
