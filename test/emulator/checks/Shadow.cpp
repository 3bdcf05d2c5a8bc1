//===- Shadow.cpp - accesses of memory that races are found by ------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two accesses conflict if one writes, one is not strong, and neither is known
// to whoever does the other.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/checks/Shadow.h"

#include "test/emulator/machine/Machine.h"

#include <fmt/core.h>

using namespace moec::emulator;

std::string moec::emulator::describeThread(uint32_t cta, uint32_t thread) {
  return fmt::format("CTA {}, warp {}, lane {}", cta, thread / kLanes,
                     thread % kLanes);
}

//===----------------------------------------------------------------------===//
// Shared memory
//===----------------------------------------------------------------------===//

SharedShadow::SharedShadow(Cta &cta, size_t bytes)
    : cta(cta), numGranules(bytes / 4 + 1), numWarps((cta.threads + 31) / 32),
      numThreads(cta.threads), writes(numGranules),
      reads(numGranules * numWarps), remote(numGranules), fine(numGranules) {}

uint64_t SharedShadow::idOf(const Write &write) const {
  return write.cta ? write.cta : cta.id;
}

void SharedShadow::split(size_t granule) {
  uint32_t base;
  if (freeFine.empty()) {
    base = uint32_t(writes.size());
    writes.resize(base + 4);
    remote.resize(base + 4);
    reads.resize((base + 4) * numWarps);
  } else {
    base = freeFine.back();
    freeFine.pop_back();
  }
  fine[granule] = base;
  for (uint32_t cell = base; cell < base + 4; ++cell) {
    writes[cell] = writes[granule];
    remote[cell] = remote[granule];
    for (unsigned warp = 0; warp < numWarps; ++warp)
      readOf(cell, warp) = readOf(granule, warp);
  }
}

template <typename F>
void SharedShadow::forCells(uint32_t offset, uint32_t bytes, F function) {
  const uint32_t end = offset + bytes;
  for (uint32_t granule = offset / 4; granule * 4 < end; ++granule) {
    const uint32_t begin = std::max(offset, granule * 4);
    const uint32_t stop = std::min(end, granule * 4 + 4);
    if (stop - begin < 4 && !fine[granule])
      split(granule);
    if (!fine[granule]) {
      function(size_t(granule), begin);
      continue;
    }
    for (uint32_t byte = begin; byte < stop; ++byte)
      function(size_t(fine[granule] + byte % 4), byte);
  }
}

void SharedShadow::conflict(const Accessor &by, uint32_t offset,
                            const char *what, uint32_t writer, uint32_t site,
                            uint32_t ofCta) {
  const Kernel &kernel = *cta.grid.kernel;
  const uint32_t index = ofCta ? cta.device.recordOf(ofCta).index : cta.index;
  std::string earlier =
      writer >= numThreads
          ? fmt::format("the asynchronous proxy for CTA {}", index)
          : describeThread(index, writer);
  const Inst &other =
      kernel.code[std::min<size_t>(site, kernel.code.size() - 1)];
  cta.device.report("race", &by.warp, &by.inst, by.lane,
                    fmt::format("shared address {:#x} of CTA {}: {} {} at {}: "
                                "{}",
                                offset, cta.index, what, earlier,
                                kernel.placeOf(other), other.text));
}

/// True if the lane, or what it knows, comes after (thread, clock) of the CTA
/// with id `ofCta`.
static bool isAfter(const Accessor &by, uint64_t ofCta, uint32_t thread,
                    uint32_t clock) {
  if (clock == kPending)
    return false;
  const Warp &warp = by.warp;
  if (ofCta == warp.cta.id && thread == warp.threadOf(by.lane))
    return true;
  const Clocks &view = warp.clocks.view(by.lane);
  if (ofCta == view.cta)
    return thread < view.own.size() && view.own[thread] >= clock;
  return view.knows(ofCta, thread, clock);
}

void SharedShadow::checkWrite(const Accessor &by, size_t cell, uint32_t offset,
                              bool reading) {
  const Write &write = writes[cell];
  if (write.writer == kPending || (write.strong && by.strong) ||
      isAfter(by, idOf(write), write.writer, write.clock))
    return;
  const char *what =
      write.clock == kPending
          ? (reading ? "read of a cp.async that was not awaited, by"
                     : "write after a cp.async that was not "
                       "awaited, by")
      : reading ? "read without synchronization after a write by"
                : "write without synchronization after a write "
                  "by";
  conflict(by, offset, what, write.writer, write.site, write.cta);
}

void SharedShadow::checkReads(const Accessor &by, size_t cell,
                              uint32_t offset) {
  const char *what = "write without synchronization after a read by";
  for (unsigned warp = 0; warp < numWarps; ++warp) {
    const Read &read = readOf(cell, warp);
    if (!read.lanes || (read.strong && by.strong))
      continue;
    // All lanes of a read have its clock: mostly all are known.
    bool anyKnown = false;
    uint32_t unknown = kNone;
    forLanes(read.lanes, [&](unsigned lane) {
      if (isAfter(by, cta.id, warp * kLanes + lane, read.clock))
        anyKnown = true;
      else
        unknown = warp * kLanes + lane;
    });
    if (unknown != kNone && !(read.collective && anyKnown))
      conflict(by, offset, what, unknown, read.site, 0);
  }
  const RemoteRead &read = remote[cell];
  if (read.cta && !isAfter(by, read.cta, read.thread, read.clock))
    conflict(by, offset, what, read.thread, read.site, read.cta);
}

void SharedShadow::setWrite(const Accessor &by, size_t cell, uint32_t writer,
                            uint32_t clock, uint32_t ofCta) {
  Write &write = writes[cell];
  write.writer = writer;
  write.clock = clock;
  write.site = by.inst.id;
  write.cta = ofCta;
  write.strong = by.strong;
  for (unsigned warp = 0; warp < numWarps; ++warp)
    readOf(cell, warp).lanes = 0;
  remote[cell].cta = 0;
}

void SharedShadow::read(const Accessor &by, uint32_t offset, uint32_t bytes) {
  const bool isOwn = &by.warp.cta == &cta;
  const uint32_t clock = by.warp.clocks.clock(by.lane);
  forCells(offset, bytes, [&](size_t cell, uint32_t at) {
    checkWrite(by, cell, at, /*reading=*/true);
    if (!isOwn) {
      remote[cell] = {uint32_t(by.warp.cta.id), by.warp.threadOf(by.lane),
                      clock, by.inst.id};
      return;
    }
    Read &entry = readOf(cell, by.warp.index);
    // One clock a warp is kept: the newest.
    if (entry.clock != clock || entry.collective || !entry.lanes)
      entry = {clock, 0, by.inst.id, by.strong, false};
    entry.lanes |= 1u << by.lane;
    entry.strong = entry.strong && by.strong;
  });
}

void SharedShadow::write(const Accessor &by, uint32_t offset, uint32_t bytes) {
  const bool isOwn = &by.warp.cta == &cta;
  const uint32_t thread = by.warp.threadOf(by.lane);
  const uint32_t clock = by.warp.clocks.clock(by.lane);
  forCells(offset, bytes, [&](size_t cell, uint32_t at) {
    checkWrite(by, cell, at, /*reading=*/false);
    checkReads(by, cell, at);
    setWrite(by, cell, thread, clock, isOwn ? 0 : uint32_t(by.warp.cta.id));
  });
}

void SharedShadow::writePending(const Accessor &by, uint32_t offset,
                                uint32_t bytes) {
  forCells(offset, bytes, [&](size_t cell, uint32_t at) {
    checkWrite(by, cell, at, /*reading=*/false);
    checkReads(by, cell, at);
    setWrite(by, cell, by.warp.threadOf(by.lane), kPending, 0);
  });
}

void SharedShadow::settle(const Accessor &by, uint32_t offset, uint32_t bytes,
                          uint32_t clock) {
  const uint32_t thread = by.warp.threadOf(by.lane);
  forCells(offset, bytes, [&](size_t cell, uint32_t) {
    Write &write = writes[cell];
    if (write.writer == thread && write.cta == 0 && write.clock == kPending)
      write.clock = clock;
  });
}

void SharedShadow::readAsync(const Accessor &by, uint32_t lanes,
                             uint32_t offset, uint32_t bytes) {
  forCells(offset, bytes, [&](size_t cell, uint32_t at) {
    const Write &write = writes[cell];
    if (write.writer == kPending)
      return;
    forLanes(lanes, [&](unsigned lane) {
      Accessor one{by.warp, by.inst, lane};
      if (!isAfter(one, idOf(write), write.writer, write.clock))
        conflict(one, at,
                 "the asynchronous proxy reads without synchronization after a "
                 "write by",
                 write.writer, write.site, write.cta);
      else if (write.writer < numThreads && !write.cta &&
               !by.warp.clocks.view(lane).proxyKnows(cta.id, write.writer,
                                                     write.clock))
        cta.device.report(
            "proxy", &by.warp, &by.inst, lane,
            fmt::format(
                "shared address {:#x} of CTA {}: the asynchronous "
                "proxy reads what {} wrote at {} without a "
                "fence.proxy.async between them",
                at, cta.index, describeThread(cta.index, write.writer),
                cta.grid.kernel->placeOf(cta.grid.kernel->code[write.site])));
    });
  });
}

void SharedShadow::readTensor(const Accessor &by, uint32_t offset,
                              uint32_t bytes, uint32_t reader, uint32_t clock) {
  readAsync(by, 1u << by.lane, offset, bytes);
  const RemoteRead now{uint32_t(by.warp.cta.id), reader, clock, by.inst.id};
  forCells(offset, bytes, [&](size_t cell, uint32_t) { remote[cell] = now; });
}

void SharedShadow::writeAsync(const Accessor &by, uint32_t offset,
                              uint32_t bytes, uint32_t writer, uint32_t clock,
                              uint64_t ofCta) {
  forCells(offset, bytes, [&](size_t cell, uint32_t at) {
    const Write &write = writes[cell];
    if (write.writer != kPending) {
      if (!isAfter(by, idOf(write), write.writer, write.clock))
        conflict(by, at,
                 "the asynchronous proxy writes without synchronization after "
                 "a write by",
                 write.writer, write.site, write.cta);
      else if (write.writer < numThreads && !write.cta &&
               !by.warp.clocks.view(by.lane).proxyKnows(cta.id, write.writer,
                                                        write.clock))
        cta.device.report(
            "proxy", &by.warp, &by.inst, by.lane,
            fmt::format(
                "shared address {:#x} of CTA {}: the asynchronous "
                "proxy writes over what {} wrote at {} without a "
                "fence.proxy.async between them",
                at, cta.index, describeThread(cta.index, write.writer),
                cta.grid.kernel->placeOf(cta.grid.kernel->code[write.site])));
    }
    checkReads(by, cell, at);
    setWrite(by, cell, writer, clock, ofCta == cta.id ? 0 : uint32_t(ofCta));
  });
}

void SharedShadow::endRead(const Accessor &by, uint32_t lanes, uint32_t offset,
                           uint32_t bytes) {
  const uint32_t clock = by.warp.clocks.clock(by.lane);
  forCells(offset, bytes, [&](size_t cell, uint32_t) {
    readOf(cell, by.warp.index) = {clock, lanes, by.inst.id, false, true};
  });
}

//===----------------------------------------------------------------------===//
// Global memory
//===----------------------------------------------------------------------===//

void GlobalShadow::check(const Accessor &by, const Access &earlier,
                         uint32_t mask, bool isWrite, bool wasWrite,
                         uint64_t address) {
  if (!earlier.cta || !(earlier.mask & mask))
    return;
  const Warp &warp = by.warp;
  if (earlier.cta == warp.cta.id && earlier.thread == warp.threadOf(by.lane))
    return;
  const CtaRecord &record = warp.cta.device.recordOf(earlier.cta);
  const bool isOther = record.gpu != warp.cta.grid.launch.gpu;
  if (earlier.strong && by.strong &&
      (!isOther || (earlier.isSystem && by.isSystem)))
    return;
  const Clocks &view = warp.clocks.view(by.lane);
  if (record.launch <= view.launches[record.gpu] ||
      view.knows(earlier.cta, earlier.thread, earlier.clock))
    return;
  const Inst &other = record.kernel->code[earlier.site];
  warp.cta.device.report(
      "race", &by.warp, &by.inst, by.lane,
      fmt::format("global address {:#x}: {} without synchronization after a {} "
                  "by {}{} at {}: {}",
                  address, isWrite ? "write" : "read",
                  wasWrite ? "write" : "read",
                  describeThread(record.index, earlier.thread),
                  isOther ? fmt::format(" of GPU {}", record.gpu) : "",
                  record.kernel->placeOf(other), other.text));
}

void GlobalShadow::access(const Accessor &by, uint64_t offset, uint32_t bytes,
                          bool isWrite, uint64_t address) {
  const uint64_t end = offset + bytes;
  Access now;
  now.cta = uint32_t(by.warp.cta.id);
  now.clock = by.warp.clocks.clock(by.lane);
  now.site = by.inst.id;
  now.thread = by.warp.threadOf(by.lane) & 0xFFF;
  now.strong = by.strong;
  now.isSystem = by.isSystem;
  for (uint64_t granule = offset / 4; granule * 4 < end; ++granule) {
    uint32_t mask = 15;
    if (granule * 4 < offset)
      mask &= 15u << (offset % 4);
    if (granule * 4 + 4 > end)
      mask &= (1u << (end - granule * 4)) - 1;
    now.mask = mask & 15;
    Cell &cell = cells[granule];
    check(by, cell.write, mask, isWrite, /*wasWrite=*/true, address);
    if (!isWrite) {
      // The newest read of this CTA, and one of another.
      Access &first = cell.reads[0];
      if (first.cta && first.cta != now.cta)
        cell.reads[1] = first;
      if (first.cta == now.cta && first.clock == now.clock &&
          first.thread == now.thread)
        now.mask = (first.mask | mask) & 15;
      first = now;
      continue;
    }
    for (Access &read : cell.reads) {
      check(by, read, mask, isWrite, /*wasWrite=*/false, address);
      if (!(read.mask & ~mask))
        read.cta = 0;
    }
    // Another thread's write of the other bytes would be forgotten; keep one.
    cell.write = now;
  }
}
