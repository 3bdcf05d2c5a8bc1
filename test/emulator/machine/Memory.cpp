//===- Memory.cpp - accesses of memory by lanes ---------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Bounds and alignment are always checked, races and undefined values as the
// settings say.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/machine/Memory.h"

#include <fmt/core.h>

using namespace moec::emulator;

/// Takes what an access without a place would write.
static Place scratch() {
  alignas(256) static uint8_t bytes[256];
  return {bytes, nullptr};
}

static const char *verbOf(Access access) {
  return access == Access::Read ? "read" : "write";
}

Cta *moec::emulator::ctaOf(Warp &warp, const Inst &inst, unsigned lane,
                           uint32_t address) {
  const uint32_t rank = address >> kRankShift;
  if (rank == warp.cta.rank)
    return &warp.cta;
  Cta *peer = warp.cta.peer(rank);
  if (peer && !peer->hasEnded())
    return peer;
  warp.cta.device.report(
      "bounds", &warp, &inst, lane,
      fmt::format("shared address {:#x} is of rank {} of the cluster, which {}",
                  address, rank, peer ? "has ended" : "does not exist"));
  return nullptr;
}

Place moec::emulator::accessShared(Warp &warp, const Inst &inst, unsigned lane,
                                   uint32_t address, uint32_t bytes,
                                   Access access) {
  Cta *cta = ctaOf(warp, inst, lane, address);
  if (!cta)
    return scratch();
  Device &device = warp.cta.device;
  const uint32_t offset = address & kOffsetMask;
  if (offset + bytes > cta->shared.size()) {
    device.report("bounds", &warp, &inst, lane,
                  fmt::format("{} of {} bytes at shared address {:#x}, of {} "
                              "bytes",
                              verbOf(access), bytes, offset,
                              cta->shared.size()));
    return scratch();
  }
  if (offset % bytes) {
    device.report("alignment", &warp, &inst, lane,
                  fmt::format("{} of {} bytes at shared address {:#x}",
                              verbOf(access), bytes, offset));
  }
  if (cta->shadow && access != Access::Unchecked) {
    Accessor by{warp, inst, lane,
                access == Access::Atomic || inst.order != Order::Weak};
    if (access == Access::Read)
      cta->shadow->read(by, offset, bytes);
    else
      cta->shadow->write(by, offset, bytes);
  }
  return {&cta->shared[offset], &cta->sharedDefined[offset]};
}

Place moec::emulator::accessGlobal(Warp &warp, const Inst &inst, unsigned lane,
                                   uint64_t address, uint32_t bytes,
                                   Access access) {
  Device &device = warp.cta.device;
  Region *region = device.findRegion(address, bytes, warp.cta.grid);
  if (!region) {
    device.report("bounds", &warp, &inst, lane,
                  fmt::format("{} of {} bytes at global address {:#x}, which "
                              "{}",
                              verbOf(access), bytes, address,
                              device.whyUnreachable(address)));
    return scratch();
  }
  if (address % bytes)
    device.report("alignment", &warp, &inst, lane,
                  fmt::format("{} of {} bytes at global address {:#x}",
                              verbOf(access), bytes, address));
  const uint64_t offset = address - region->begin;
  if (region->shadow && access != Access::Unchecked)
    region->shadow->access(
        {warp, inst, lane,
         access == Access::Atomic || inst.order != Order::Weak, inst.isSystem},
        offset, bytes, access != Access::Read, address);
  return {reinterpret_cast<uint8_t *>(address),
          region->defined.empty() ? nullptr : &region->defined[offset]};
}

static bool isParam(const Grid &grid, uint64_t address, uint32_t bytes) {
  const auto begin = reinterpret_cast<uint64_t>(grid.params.data());
  return address >= begin && address + bytes <= begin + grid.kernel->paramBytes;
}

Place moec::emulator::accessMemory(Warp &warp, const Inst &inst, Space space,
                                   unsigned lane, uint64_t address,
                                   uint32_t bytes, Access access) {
  if (space == Space::Shared)
    return accessShared(warp, inst, lane, uint32_t(address), bytes, access);
  if (space == Space::Generic && isSharedWindow(address))
    return accessShared(warp, inst, lane, uint32_t(address), bytes, access);
  if (space == Space::Param ||
      (space == Space::Generic && isParam(warp.cta.grid, address, bytes))) {
    if (isParam(warp.cta.grid, address, bytes) && access == Access::Read)
      return {reinterpret_cast<uint8_t *>(address), nullptr};
    warp.cta.device.report("bounds", &warp, &inst, lane,
                           fmt::format("{} of {} bytes beyond the parameters",
                                       verbOf(access), bytes));
    return scratch();
  }
  return accessGlobal(warp, inst, lane, address, bytes, access);
}

void moec::emulator::requireDefined(Warp &warp, const Inst &inst,
                                    const Reg &reg, uint32_t lanes,
                                    const char *what) {
  if (!reg || !warp.cta.device.settings.checkUndefined ||
      warp.isDefined(reg, lanes))
    return;
  const uint32_t undefined = lanes & ~warp.definedLanes(reg);
  warp.cta.device.report(
      "undefined", &warp, &inst, unsigned(std::countr_zero(undefined)),
      fmt::format("{} depends on a value that nothing wrote", what));
  // One report for each value is enough.
  warp.setDefined(reg, undefined, kAllLanes);
}
