//===- TensorLoad.cpp - loads and stores of tensor memory -----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// tcgen05.ld and st between registers of a warp and the lanes of tensor memory
// that the warp may touch: 32 (w % 4) on. With lane = 4 g + t:
//
//   32x32b    register r: lane, column r
//   16x32bx2  register r: lane % 16, column r; from lane 16 on, the immediate
//   on 16x64b    register r: lane g + 8 (t % 2), column 2 r + t / 2 16x128b
//   register r: lane g + 8 (r % 2), column 4 (r / 2) + t 16x256b   register r:
//   lane g + 8 (r / 2 % 2), column 8 (r / 4) + 2 t + r % 2
//
// pack::16b and unpack::16b: a register has the lower halves of two columns.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/instructions/Converged.h"
#include "test/emulator/instructions/TensorWork.h"
#include "test/emulator/machine/Memory.h"

#include <fmt/core.h>

#include <algorithm>

using namespace moec::emulator;

namespace {
enum Shape : uint8_t { k32x32, k16x32x2, k16x64, k16x128, k16x256 };

struct ShapeRow {
  std::string_view name;
  unsigned lanes;
  unsigned registers; ///< for each repetition
};

/// The place of a register of a lane, from the instruction's address on.
struct Position {
  unsigned lane, column;
};
} // namespace

static constexpr ShapeRow kShapes[] = {{"32x32b", 32, 1},
                                       {"16x32bx2", 16, 1},
                                       {"16x64b", 16, 1},
                                       {"16x128b", 16, 2},
                                       {"16x256b", 16, 4}};

static Position positionOf(unsigned shape, unsigned lane, unsigned reg) {
  const unsigned g = lane / 4, t = lane % 4;
  switch (shape) {
  case k32x32:
    return {lane, reg};
  case k16x32x2:
    return {lane % 16, reg};
  case k16x64:
    return {g + 8 * (t % 2), 2 * reg + t / 2};
  case k16x128:
    return {g + 8 * (reg % 2), 4 * (reg / 2) + t};
  default:
    return {g + 8 * (reg / 2 % 2), 8 * (reg / 4) + 2 * t + reg % 2};
  }
}

/// kind is the shape, flag says that registers have halves of two columns,
/// immediate is the distance of the second half of 16x32bx2.
static Position placeOf(const Inst &inst, const Position &base, unsigned lane,
                        unsigned reg) {
  Position place = positionOf(inst.kind, lane, reg);
  if (inst.flag)
    place.column *= 2;
  if (inst.kind == k16x32x2 && lane >= 16)
    place.column += unsigned(inst.immediate);
  return {base.lane + place.lane, base.column + place.column};
}

/// Finds the place where the instruction begins; false after a report.
static bool findBase(Warp &warp, const Inst &inst, uint32_t lanes,
                     Position &base) {
  uint32_t address = 0;
  if (!uniformAddress(warp, inst, lanes, inst.memory[0], address))
    return false;
  const unsigned own = 32 * (warp.index % 4), lane = address >> 16;
  // Public kernels leave the warp's bits away.
  const unsigned quarter = lane / 32 * 32, within = lane % 32;
  const bool isHalf = kShapes[inst.kind].lanes == 16;
  if ((quarter != 0 && quarter != own) ||
      (within != 0 && !(isHalf && within == 16))) {
    warp.cta.device.report(
        "tcgen05", &warp, &inst, {},
        fmt::format("lane {} of tensor memory, warp {} may begin at lane {}{}",
                    lane, warp.index, own,
                    isHalf ? fmt::format(" or {}", own + 16) : ""));
    return false;
  }
  base = {own + within, address & 0xFFFF};
  return true;
}

/// The columns that the instruction touches; a second range for the second
/// half of 16x32bx2.
static std::vector<TensorArea> areasOf(const Inst &inst, const Position &base,
                                       size_t registers) {
  const unsigned perColumn[] = {1, 1, 2, 2, 2};
  const unsigned columns =
      unsigned(registers) * perColumn[inst.kind] * (inst.flag ? 2 : 1);
  std::vector<TensorArea> areas = {
      {base.lane, kShapes[inst.kind].lanes, base.column, columns}};
  if (inst.kind == k16x32x2) {
    areas.push_back(areas[0]);
    areas[1].column += unsigned(inst.immediate);
  }
  return areas;
}

/// Numbers the access and checks it; false if the columns are not the CTA's.
static bool beginAccess(Warp &warp, const Inst &inst, uint32_t lanes,
                        const Position &base, size_t registers, AsyncWork &work,
                        TensorRole role) {
  Cta &cta = warp.cta;
  const auto areas = areasOf(inst, base, registers);
  for (const TensorArea &area : areas)
    if (!ownsColumns(warp, inst, cta, area.column, area.columns))
      return false;
  TensorWarp &mine = warp.tensorWork;
  if (!mine.agent)
    mine.agent = cta.threads + ++cta.clockSlots;
  work.inst = &inst;
  work.group = ++mine.issued;
  if (!cta.device.settings.checkRaces)
    return true;
  const auto first = unsigned(std::countr_zero(lanes));
  TensorAccess access;
  access.cta = cta.id;
  access.agent = mine.agent;
  access.number = work.group;
  access.thread = warp.threadOf(first);
  access.clock = warp.clocks.clock(first);
  access.site = inst.id;
  access.role = role;
  for (const TensorArea &area : areas)
    cta.tensor.memory->shadow.access(warp, inst, lanes, cta, access, area,
                                     role == TensorRole::Store);
  return true;
}

static void queueAccess(Warp &warp, AsyncWork work,
                        std::deque<AsyncWork> &works) {
  Device &device = warp.cta.device;
  const bool isNext = works.empty() || works.back().ran;
  if (device.settings.timing == Timing::AtOnce ||
      (device.settings.timing == Timing::Random && isNext &&
       device.chance(2))) {
    work.run();
    work.ran = true;
  }
  works.push_back(std::move(work));
}

static void loadNow(Warp &warp, const Inst &inst, uint32_t lanes,
                    const Position &base) {
  TensorMemory &memory = *warp.cta.tensor.memory;
  const bool tracks = warp.cta.device.settings.checkUndefined;
  for (unsigned reg = 0; reg < inst.dstList.size(); ++reg) {
    const Reg &to = inst.dstList[reg];
    uint32_t defined = 0;
    forLanes(lanes, [&](unsigned lane) {
      const Position at = placeOf(inst, base, lane, reg);
      uint32_t value = memory.word(at.lane, at.column);
      Content content = memory.content(at.lane, at.column);
      if (inst.flag) {
        value = (value & 0xFFFF) | memory.word(at.lane, at.column + 1) << 16;
        content = std::min(content, memory.content(at.lane, at.column + 1));
      }
      if (tracks && content == Content::Nothing)
        warp.cta.device.report(
            "undefined", &warp, &inst, lane,
            fmt::format("nothing wrote lane {}, column {} of tensor memory",
                        at.lane, at.column));
      if (!to)
        return;
      warp.lanesOf<uint32_t>(to)[lane] = value;
      defined |= uint32_t(content == Content::Defined) << lane;
    });
    if (to)
      warp.tensorWork.registers[to.index] = defined;
  }
}

static Step load(Warp &warp, const Inst &inst, uint32_t lanes) {
  if (!isConverged(warp, lanes))
    return Step::Wait;
  Position base;
  AsyncWork work;
  if (!findBase(warp, inst, lanes, base) ||
      !beginAccess(warp, inst, lanes, base, inst.dstList.size(), work,
                   TensorRole::Load))
    return Step::Next;
  // Until it is awaited, nothing may use the registers.
  for (const Reg &reg : inst.dstList)
    if (reg) {
      warp.tensorWork.registers[reg.index] = 0;
      warp.setDefined(reg, lanes, 0);
    }
  work.run = [&warp, &inst, lanes, base] { loadNow(warp, inst, lanes, base); };
  queueAccess(warp, std::move(work), warp.tensorWork.loads);
  return Step::Next;
}

static Step store(Warp &warp, const Inst &inst, uint32_t lanes) {
  if (!isConverged(warp, lanes))
    return Step::Wait;
  Position base;
  AsyncWork work;
  const auto &registers = inst.srcList[0];
  if (!findBase(warp, inst, lanes, base) ||
      !beginAccess(warp, inst, lanes, base, registers.size(), work,
                   TensorRole::Store))
    return Step::Next;
  struct Value {
    Position at;
    uint32_t value;
    bool isDefined;
  };
  std::vector<Value> values;
  for (unsigned reg = 0; reg < registers.size(); ++reg)
    forLanes(lanes, [&](unsigned lane) {
      Value one{placeOf(inst, base, lane, reg),
                warp.lanesOf<uint32_t>(registers[reg])[lane],
                warp.isDefined(registers[reg], 1u << lane)};
      const uint32_t high = one.value >> 16;
      if (inst.flag)
        one.value &= 0xFFFF;
      values.push_back(one);
      if (inst.flag) {
        ++one.at.column;
        one.value = high;
        values.push_back(one);
      }
    });
  work.run = [memory = warp.cta.tensor.memory, values = std::move(values)] {
    for (const Value &one : values) {
      memory->word(one.at.lane, one.at.column) = one.value;
      memory->content(one.at.lane, one.at.column) =
          one.isDefined ? Content::Defined : Content::Undefined;
    }
  };
  queueAccess(warp, std::move(work), warp.tensorWork.stores);
  return Step::Next;
}

/// flag: for stores.
static Step await(Warp &warp, const Inst &inst, uint32_t lanes) {
  if (!isConverged(warp, lanes))
    return Step::Wait;
  TensorWarp &mine = warp.tensorWork;
  auto &works = inst.flag ? mine.stores : mine.loads;
  for (AsyncWork &work : works)
    if (!work.ran)
      work.run();
  works.clear();
  if (!inst.flag) {
    for (const auto &[reg, defined] : mine.registers)
      warp.defined[reg] = (warp.defined[reg] & ~lanes) | (defined & lanes);
    mine.registers.clear();
  }
  return Step::Next;
}

static void noteShape(Inst &inst, const NameParts &name) {
  inst.taint = Taint::Own;
  inst.mayWait = true;
  const auto shape = std::ranges::find_if(
      kShapes, [&](const ShapeRow &row) { return name.has(row.name); });
  inst.kind = uint8_t(shape - kShapes);
  inst.flag = name.has("pack::16b") || name.has("unpack::16b");
  const unsigned count =
      unsigned(std::stoi(std::string(name.parts[5].substr(1))));
  const size_t registers =
      name.has("ld") ? inst.dstList.size() : inst.srcList[0].size();
  if (registers != count * shape->registers || registers > 128)
    throw PtxError("another number of registers than the shape has");
}

static void noteWait(Inst &inst, const NameParts &name) {
  inst.taint = Taint::Own;
  inst.mayWait = true;
  inst.flag = name.has("wait::st");
}

void moec::emulator::addTensorLoadRows(Rows &rows) {
  const std::string shapes = "32x32b|16x64b|16x128b|16x256b",
                    counts = ".x1|x2|x4|x8|x16|x32|x64|x128.",
                    load_ = "tcgen05.ld.sync.aligned.",
                    store_ = "tcgen05.st.sync.aligned.";
  rows.insert(
      rows.end(),
      {{load_ + shapes + counts + "?pack::16b.b32", "L4 m", load, noteShape},
       {load_ + "16x32bx2" + counts + "?pack::16b.b32", "L4 m i", load,
        noteShape},
       {store_ + shapes + counts + "?unpack::16b.b32", "m K4", store,
        noteShape},
       {store_ + "16x32bx2" + counts + "?unpack::16b.b32", "m i K4", store,
        noteShape},
       {"tcgen05.wait::ld|wait::st.sync.aligned", "", await, noteWait}});
}
