//===- BulkCopy.cpp - copies by the asynchronous proxy --------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// cp.async.bulk of plain bytes and of TMA tiles, between global and shared
// memory.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/core/TensorMap.h"
#include "test/emulator/instructions/Mbarrier.h"
#include "test/emulator/machine/Memory.h"
#include "test/emulator/parse/Rows.h"

#include <fmt/core.h>

using namespace moec::emulator;

//===----------------------------------------------------------------------===//
// What copies touch
//===----------------------------------------------------------------------===//

/// True if the bytes are in one allocation; else reports.
static bool checkGlobal(Warp &warp, const Inst &inst, unsigned lane,
                        uint64_t address, uint32_t bytes, bool isWrite) {
  Device &device = warp.cta.device;
  Region *region = device.findRegion(address, bytes, warp.cta.grid);
  if (!region) {
    device.report("bounds", &warp, &inst, lane,
                  fmt::format("copy of {} bytes at global address {:#x}, which "
                              "{}",
                              bytes, address, device.whyUnreachable(address)));
    return false;
  }
  if (region->shadow)
    region->shadow->access({warp, inst, lane}, address - region->begin, bytes,
                           isWrite, address);
  return true;
}

/// True if the bytes are shared memory of the CTA.
static bool checkShared(Warp &warp, const Inst &inst, unsigned lane, Cta &cta,
                        uint32_t offset, uint32_t bytes, uint32_t alignment) {
  Device &device = warp.cta.device;
  if (offset % alignment)
    device.report("alignment", &warp, &inst, lane,
                  fmt::format("shared address {:#x} is no multiple of {}",
                              offset, alignment));
  if (offset + bytes <= cta.shared.size())
    return true;
  device.report("bounds", &warp, &inst, lane,
                fmt::format("copy of {} bytes at shared address {:#x}, of {} "
                            "bytes",
                            bytes, offset, cta.shared.size()));
  return false;
}

/// Reports writes over what multiplies or stores in flight read.
static void checkInFlight(Warp &warp, const Inst &inst, unsigned lane,
                          const Cta &cta, uint32_t begin, uint32_t end) {
  for (const auto &other : cta.warps)
    for (const auto *works : {&other->multiplies, &other->stores})
      for (const AsyncWork &work : *works)
        for (const InFlight &read : work.reads)
          if (read.cta == &cta && begin < read.end && read.begin < end)
            warp.cta.device.report(
                "async", &warp, &inst, lane,
                fmt::format("the copy writes shared address {:#x}, which warp "
                            "{} still reads at {}: {}",
                            std::max(begin, read.begin), other->index,
                            cta.grid.kernel->placeOf(*work.inst),
                            work.inst->text.substr(0, 80)));
}

static void landLater(Warp &warp, const Inst &inst,
                      std::function<void()> land) {
  Cta &cta = warp.cta;
  if (cta.device.settings.timing == Timing::AtOnce)
    land();
  else
    cta.events.push_back({std::move(land), &warp, &inst});
}

/// Copies bytes of global memory and whether they are defined.
static void copyIn(Cta &cta, uint32_t to, uint64_t from, uint32_t bytes) {
  std::memcpy(&cta.shared[to], reinterpret_cast<const void *>(from), bytes);
  Region *region = cta.device.findRegion(from, bytes);
  if (region && !region->defined.empty())
    std::memcpy(&cta.sharedDefined[to], &region->defined[from - region->begin],
                bytes);
  else
    std::memset(&cta.sharedDefined[to], 1, bytes);
}

static void copyOut(Cta &cta, uint64_t to, uint32_t from, uint32_t bytes) {
  std::memcpy(reinterpret_cast<void *>(to), &cta.shared[from], bytes);
  Region *region = cta.device.findRegion(to, bytes);
  if (region && !region->defined.empty())
    std::memcpy(&region->defined[to - region->begin], &cta.sharedDefined[from],
                bytes);
}

namespace {
/// The place that a load writes, and the mbarrier that it completes.
struct Destination {
  Cta *cta = nullptr;
  uint32_t offset = 0;
  Cta *barrierCta = nullptr;
  uint32_t barrier = 0;
};
} // namespace

/// Checks a load's destination and marks what will be written. option[0]: CTAs
/// of a group, of which another one may have the mbarrier.
static bool beginLoad(Warp &warp, const Inst &inst, unsigned lane,
                      uint32_t bytes, uint32_t alignment, uint32_t address,
                      uint32_t barrierAddress, Destination &to) {
  to.cta = ctaOf(warp, inst, lane, address);
  to.offset = address & kOffsetMask;
  to.barrier = barrierAddress & kOffsetMask;
  Mbarrier *mbarrier =
      findMbarrier(warp, inst, lane, barrierAddress, &to.barrierCta);
  if (!to.cta || !mbarrier ||
      !checkShared(warp, inst, lane, *to.cta, to.offset, bytes, alignment))
    return false;
  if (to.cta->rank / inst.option[0] != to.barrierCta->rank / inst.option[0])
    warp.cta.device.report(
        "mbarrier", &warp, &inst, lane,
        fmt::format("the copy writes to CTA {} and signals CTA {}",
                    to.cta->index, to.barrierCta->index));
  checkInFlight(warp, inst, lane, *to.cta, to.offset, to.offset + bytes);
  if (to.cta->shadow)
    to.cta->shadow->writeAsync({warp, inst, lane}, to.offset, bytes,
                               writerOf(*to.barrierCta, *mbarrier),
                               mbarrier->phase + 1, to.barrierCta->id);
  return true;
}

/// The places that a load writes: one, or one in each CTA of the mask (flag;
/// kind is its place among the sources). Empty after a report.
static std::vector<Destination> beginLoads(Warp &warp, const Inst &inst,
                                           unsigned lane, uint32_t bytes,
                                           uint32_t alignment) {
  const auto address = uint32_t(warp.addressOf(inst.memory[0], lane)),
             barrier = uint32_t(warp.addressOf(inst.memory[2], lane));
  uint32_t ranks = 0;
  if (inst.flag) {
    const Reg &mask = inst.src[inst.kind];
    requireDefined(warp, inst, mask, 1u << lane, "the mask of CTAs");
    ranks = uint32_t(warp.value(mask, lane));
    if (!ranks)
      warp.cta.device.report("async", &warp, &inst, lane,
                             "the mask has no CTA of the cluster");
  }
  std::vector<Destination> places(inst.flag ? size_t(std::popcount(ranks)) : 1);
  if (!inst.flag) {
    if (!beginLoad(warp, inst, lane, bytes, alignment, address, barrier,
                   places[0]))
      places.clear();
    return places;
  }
  size_t next = 0;
  for (uint32_t rank = 0; rank < 16; ++rank) {
    const uint32_t cta = rank << kRankShift;
    if ((ranks >> rank & 1) &&
        !beginLoad(warp, inst, lane, bytes, alignment,
                   (address & kOffsetMask) | cta, (barrier & kOffsetMask) | cta,
                   places[next++]))
      return {};
  }
  return places;
}

static void endLoad(const Destination &to, uint32_t bytes) {
  completeBytes(*to.barrierCta, to.barrierCta->mbarriers[to.barrier], bytes);
}

//===----------------------------------------------------------------------===//
// Plain bytes
//===----------------------------------------------------------------------===//

static bool checkBulk(Warp &warp, const Inst &inst, unsigned lane,
                      uint64_t global, uint32_t bytes) {
  if (bytes % 16 == 0 && global % 16 == 0)
    return true;
  warp.cta.device.report("alignment", &warp, &inst, lane,
                         fmt::format("{} bytes at {:#x}: neither may leave a "
                                     "rest of 16",
                                     bytes, global));
  return false;
}

static Step loadBulk(Warp &warp, const Inst &inst, uint32_t lanes) {
  forLanes(lanes, [&](unsigned lane) {
    const uint64_t from = warp.addressOf(inst.memory[1], lane);
    const auto bytes = uint32_t(warp.value(inst.src[0], lane));
    if (!bytes || !checkBulk(warp, inst, lane, from, bytes) ||
        !checkGlobal(warp, inst, lane, from, bytes, /*isWrite=*/false))
      return;
    for (const Destination &to : beginLoads(warp, inst, lane, bytes, 16))
      landLater(warp, inst, [to, from, bytes] {
        copyIn(*to.cta, to.offset, from, bytes);
        endLoad(to, bytes);
      });
  });
  return Step::Next;
}

static AsyncWork beginStore(Warp &warp, const Inst &inst, uint32_t offset,
                            uint32_t bytes, unsigned lane) {
  AsyncWork work;
  work.inst = &inst;
  work.group = warp.storeGroup;
  work.reads = {{&warp.cta, offset, offset + bytes}};
  if (warp.cta.shadow)
    warp.cta.shadow->readAsync({warp, inst, lane}, 1u << lane, offset, bytes);
  return work;
}

static void issueStore(Warp &warp, AsyncWork work) {
  const Timing timing = warp.cta.device.settings.timing;
  if (timing == Timing::AtOnce ||
      (timing == Timing::Random && warp.cta.device.chance(3))) {
    work.run();
    work.ran = true;
  }
  warp.stores.push_back(std::move(work));
}

static Step storeBulk(Warp &warp, const Inst &inst, uint32_t lanes) {
  forLanes(lanes, [&](unsigned lane) {
    const uint64_t to = warp.addressOf(inst.memory[0], lane);
    const auto from =
        uint32_t(warp.addressOf(inst.memory[1], lane)) & kOffsetMask;
    const auto bytes = uint32_t(warp.value(inst.src[0], lane));
    Cta &cta = warp.cta;
    if (!bytes || !checkBulk(warp, inst, lane, to, bytes) ||
        !checkGlobal(warp, inst, lane, to, bytes, /*isWrite=*/true) ||
        !checkShared(warp, inst, lane, cta, from, bytes, 16))
      return;
    AsyncWork work = beginStore(warp, inst, from, bytes, lane);
    work.run = [&cta, to, from, bytes] { copyOut(cta, to, from, bytes); };
    issueStore(warp, std::move(work));
  });
  return Step::Next;
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

static bool readMap(Warp &warp, const Inst &inst, unsigned lane,
                    const MemoryOperand &operand, TensorMap &map) {
  const uint64_t address = warp.addressOf(operand, lane);
  const Place place =
      accessMemory(warp, inst, Space::Generic, lane, address, 64, Access::Read);
  std::memcpy(&map, place.bytes, sizeof(map));
  const size_t rank = inst.shape[0] ? 2 : inst.srcList[0].size();
  std::string fault;
  if (map.magic != TensorMap::kMagic)
    fault = fmt::format("there is no tensor map at {:#x}", address);
  else if (map.rank != rank)
    fault = fmt::format("the tensor map has {} dimensions", map.rank);
  else if (inst.shape[0] && map.box[1] != 1)
    fault = fmt::format("the box of the tensor map has {} rows, four are "
                        "gathered one by one",
                        map.box[1]);
  if (!fault.empty())
    warp.cta.device.report("bounds", &warp, &inst, lane, fault);
  return fault.empty();
}

namespace {
/// A row of a tile in global memory: `inside` of its bytes are in the tensor,
/// from `skipped` on.
struct TileRow {
  uint64_t address;
  uint32_t skipped, inside;
};
} // namespace

/// The rows of the box at `at`, in the order of shared memory.
static std::vector<TileRow> rowsOf(const TensorMap &map,
                                   const std::array<int32_t, 5> &at) {
  std::vector<TileRow> rows(map.numRows());
  const int64_t bits = map.elementBytes() ? map.elementBytes() * 8 : 4;
  auto extentOf = [&](unsigned i) {
    return map.extents[i] ? int64_t(map.extents[i]) : int64_t(1) << 32;
  };
  const int64_t begin = std::clamp<int64_t>(at[0], 0, extentOf(0));
  const int64_t end =
      std::clamp<int64_t>(int64_t(at[0]) + map.box[0], 0, extentOf(0));
  for (size_t index = 0; index < rows.size(); ++index) {
    TileRow &row = rows[index];
    uint64_t address = map.base;
    bool isInside = begin < end;
    size_t rest = index;
    for (unsigned i = 1; i < map.rank; ++i) {
      const int64_t coordinate = int64_t(at[i]) + int64_t(rest % map.box[i]);
      rest /= map.box[i];
      isInside &= coordinate >= 0 && coordinate < extentOf(i);
      address += uint64_t(coordinate) * map.strides[i - 1];
    }
    row.skipped = isInside ? uint32_t((begin - at[0]) * bits / 8) : 0;
    row.inside = isInside ? uint32_t((end - begin) * bits / 8) : 0;
    row.address = address + uint64_t(begin * bits / 8);
  }
  return rows;
}

/// Coordinates; of a gather, the column and four rows.
static std::array<int32_t, 5> coordinatesOf(Warp &warp, const Inst &inst,
                                            unsigned lane) {
  std::array<int32_t, 5> at = {};
  for (size_t i = 0; i < inst.srcList[0].size(); ++i) {
    requireDefined(warp, inst, inst.srcList[0][i], 1u << lane,
                   "the coordinate");
    at[i] = int32_t(warp.value(inst.srcList[0][i], lane));
  }
  return at;
}

/// True if 16 elements of 4 bits are in the first half of 16 bytes.
static bool hasGaps(const TensorMap &map) {
  return map.sharedRowBytes() != map.rowBytes();
}

/// Copies the rows of a tile to shared memory.
static void landTile(const Destination &to, const std::vector<TileRow> &rows,
                     const TensorMap &map) {
  const uint32_t rowBytes = map.rowBytes(),
                 bytes = uint32_t(map.sharedRowBytes() * rows.size());
  std::vector<uint8_t> tile(rowBytes * rows.size()), defined(tile.size(), 1);
  for (size_t i = 0; i < rows.size(); ++i) {
    const TileRow &row = rows[i];
    if (!row.inside)
      continue;
    const size_t at = i * rowBytes + row.skipped;
    std::memcpy(&tile[at], reinterpret_cast<const void *>(row.address),
                row.inside);
    Region *region = to.cta->device.findRegion(row.address, row.inside);
    if (region && !region->defined.empty())
      std::memcpy(&defined[at], &region->defined[row.address - region->begin],
                  row.inside);
  }
  const uint32_t filled = hasGaps(map) ? 8 : 16;
  for (uint32_t chunk = 0; chunk < bytes / 16; ++chunk) {
    const uint32_t place = swizzled(to.offset + chunk * 16, map.swizzle);
    std::memcpy(&to.cta->shared[place], &tile[chunk * filled], filled);
    std::memcpy(&to.cta->sharedDefined[place], &defined[chunk * filled],
                filled);
    std::memset(&to.cta->sharedDefined[place + filled], 0, 16 - filled);
  }
  endLoad(to, uint32_t(tile.size()));
}

/// shape[0]: four rows that the coordinates name.
static Step loadTile(Warp &warp, const Inst &inst, uint32_t lanes) {
  forLanes(lanes, [&](unsigned lane) {
    TensorMap map;
    if (!readMap(warp, inst, lane, inst.memory[1], map))
      return;
    if (map.fillsNan) {
      warp.cta.device.report("bounds", &warp, &inst, lane,
                             "this fill is not covered");
      return;
    }
    const auto at = coordinatesOf(warp, inst, lane);
    std::vector<TileRow> rows;
    if (!inst.shape[0])
      rows = rowsOf(map, at);
    for (size_t i = 1; inst.shape[0] && i < 5; ++i)
      rows.push_back(rowsOf(map, {at[0], at[i]})[0]);
    for (const TileRow &row : rows)
      if (row.inside && !checkGlobal(warp, inst, lane, row.address, row.inside,
                                     /*isWrite=*/false))
        return;
    // A tile that begins within the pattern's period is swizzled by its
    // address, as the hardware does.
    const auto bytes = uint32_t(map.sharedRowBytes() * rows.size());
    for (const Destination &to : beginLoads(warp, inst, lane, bytes, 128))
      landLater(warp, inst, [to, rows, map] { landTile(to, rows, map); });
  });
  return Step::Next;
}

static Step storeTile(Warp &warp, const Inst &inst, uint32_t lanes) {
  forLanes(lanes, [&](unsigned lane) {
    TensorMap map;
    if (!readMap(warp, inst, lane, inst.memory[0], map))
      return;
    if (hasGaps(map)) {
      warp.cta.device.report("bounds", &warp, &inst, lane,
                             "stores of this type are not covered");
      return;
    }
    const auto from =
        uint32_t(warp.addressOf(inst.memory[1], lane)) & kOffsetMask;
    const auto rows = rowsOf(map, coordinatesOf(warp, inst, lane));
    const uint32_t rowBytes = map.rowBytes();
    const auto bytes = uint32_t(rowBytes * rows.size());
    Cta &cta = warp.cta;
    if (!checkShared(warp, inst, lane, cta, from, bytes, 128))
      return;
    for (const TileRow &row : rows)
      if (row.inside && !checkGlobal(warp, inst, lane, row.address, row.inside,
                                     /*isWrite=*/true))
        return;
    AsyncWork work = beginStore(warp, inst, from, bytes, lane);
    work.run = [&cta, from, rows, rowBytes, swizzle = map.swizzle] {
      for (size_t i = 0; i < rows.size(); ++i) {
        const TileRow &row = rows[i];
        for (uint32_t at = 0; at < row.inside;) {
          // Within chunks of 16 bytes, which stay together.
          const uint32_t offset =
              from + uint32_t(i) * rowBytes + row.skipped + at;
          const uint32_t count = std::min(16 - offset % 16, row.inside - at);
          copyOut(cta, row.address + at, swizzled(offset, swizzle), count);
          at += count;
        }
      }
    };
    issueStore(warp, std::move(work));
  });
  return Step::Next;
}

static Step commitStores(Warp &warp, const Inst &, uint32_t) {
  ++warp.storeGroup;
  return Step::Next;
}

/// flag: until shared memory has been read only.
static Step awaitStores(Warp &warp, const Inst &inst, uint32_t lanes) {
  for (AsyncWork &work : warp.stores) {
    if (work.group + inst.immediate >= warp.storeGroup)
      continue;
    if (!work.ran)
      work.run();
    work.ran = true;
    if (warp.cta.shadow)
      for (const InFlight &read : work.reads)
        warp.cta.shadow->endRead(
            {warp, *work.inst, unsigned(std::countr_zero(lanes))}, lanes,
            read.begin, read.end - read.begin);
    work.reads.clear();
  }
  std::erase_if(warp.stores,
                [](const AsyncWork &work) { return work.reads.empty(); });
  return Step::Next;
}

static void noteLoad(Inst &inst, const NameParts &name) {
  inst.taint = Taint::Own;
  inst.space = Space::Shared;
  inst.flag = name.has("multicast::cluster");
  inst.kind = name.has("tensor") ? 0 : 1;
  inst.shape[0] = name.has("tile::gather4");
  inst.option[0] = name.has("cta_group::2") ? 2 : 1;
}
static void noteStore(Inst &inst, const NameParts &) {
  inst.taint = Taint::Own;
}
static void noteWait(Inst &inst, const NameParts &name) {
  inst.flag = name.has("read");
}

void moec::emulator::addBulkCopyRows(Rows &rows) {
  const std::string barrier = ".mbarrier::complete_tx::bytes";
  const std::string shared = "shared::cluster|shared::cta";
  const std::string tensor = "cp.async.bulk.tensor.1d|2d|3d|4d|5d.",
                    gather = "cp.async.bulk.tensor.2d.",
                    groups = "cta_group::1|cta_group::2",
                    hint = ".L2::cache_hint", many = ".multicast::cluster";
  auto add = [&](const std::string &name, const std::string &operands,
                 Inst::Execute execute, const std::string &behind = "") {
    rows.push_back({name + behind, operands, execute, noteLoad});
    rows.push_back({name + behind + hint, operands + " s8", execute, noteLoad});
    rows.push_back({name + many + behind, operands + " s2", execute, noteLoad});
    rows.push_back(
        {name + many + behind + hint, operands + " s2 s8", execute, noteLoad});
  };
  // The manual has the group behind the mbarrier, public kernels in front.
  auto addTile = [&](const std::string &begin, const std::string &end) {
    add(begin + "?" + groups + "." + shared + end, "m t m", loadTile);
    add(begin + shared + end, "m t m", loadTile, "." + groups);
  };
  add("cp.async.bulk." + shared + ".global" + barrier, "m m s4 m", loadBulk);
  addTile(tensor, ".global.?tile" + barrier);
  addTile(gather, ".global.tile::gather4" + barrier);
  rows.insert(rows.end(),
              {{"cp.async.bulk.global.shared::cta.bulk_group.?L2::cache_hint",
                "m m s4 [s8]", storeBulk, noteStore},
               {tensor + "global.shared::cta.?tile.bulk_group", "t m",
                storeTile, noteStore},
               {"cp.async.bulk.commit_group", "", commitStores},
               {"cp.async.bulk.wait_group.?read", "i", awaitStores, noteWait}});
}
