//===- LoadStore.cpp - loads and stores -----------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// ld and st of all spaces, prefetches and hints.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/machine/Memory.h"
#include "test/emulator/machine/Ordering.h"
#include "test/emulator/parse/Rows.h"

using namespace moec::emulator;

static Step load(Warp &warp, const Inst &inst, uint32_t lanes) {
  requireDefined(warp, inst, inst.memory[0].base, lanes, "the address");
  const auto count = uint32_t(inst.dstList.size());
  const bool tracks = warp.cta.device.settings.checkUndefined;
  forLanes(lanes, [&](unsigned lane) {
    const uint64_t address = warp.addressOf(inst.memory[0], lane);
    const Place place = accessMemory(warp, inst, inst.space, lane, address,
                                     inst.bytes * count, Access::Read);
    for (uint32_t i = 0; i < count; ++i) {
      const Reg &to = inst.dstList[i];
      if (!to)
        continue;
      uint64_t value = 0;
      std::memcpy(&value, place.bytes + i * inst.bytes, inst.bytes);
      if (inst.isSigned) {
        const unsigned unused = 64 - inst.bytes * 8;
        value = uint64_t(int64_t(value << unused) >> unused);
      }
      warp.set(to, lane, value);
      if (tracks) {
        bool isDefined = true;
        if (place.defined)
          for (uint32_t byte = 0; byte < inst.bytes; ++byte)
            isDefined &= place.defined[i * inst.bytes + byte] != 0;
        warp.setDefined(to, 1u << lane, isDefined ? kAllLanes : 0);
      }
    }
    // Each element of a vector is a variable of its own.
    for (uint32_t i = 0; inst.order != Order::Weak && i < count; ++i)
      noteStrongRead(warp, inst, lane, address + i * inst.bytes);
  });
  return Step::Next;
}

static Step store(Warp &warp, const Inst &inst, uint32_t lanes) {
  requireDefined(warp, inst, inst.memory[0].base, lanes, "the address");
  const auto &from = inst.srcList[0];
  const auto count = uint32_t(from.size());
  const bool tracks = warp.cta.device.settings.checkUndefined;
  forLanes(lanes, [&](unsigned lane) {
    const uint64_t address = warp.addressOf(inst.memory[0], lane);
    const Place place = accessMemory(warp, inst, inst.space, lane, address,
                                     inst.bytes * count, Access::Write);
    for (uint32_t i = 0; i < count; ++i) {
      const uint64_t value = warp.value(from[i], lane);
      std::memcpy(place.bytes + i * inst.bytes, &value, inst.bytes);
      if (place.defined)
        std::memset(place.defined + i * inst.bytes,
                    !tracks || warp.isDefined(from[i], 1u << lane), inst.bytes);
    }
    for (uint32_t i = 0; inst.order != Order::Weak && i < count; ++i)
      noteStrongWrite(warp, inst, lane, address + i * inst.bytes,
                      /*isAtomic=*/false);
  });
  warp.cta.device.noteEffect();
  return Step::Next;
}

static void noteAccess(Inst &inst, const NameParts &name) {
  inst.bytes = bytesOfType(name.last());
  inst.isSigned = name.last()[0] == 's';
  inst.space = spaceOf(name);
  inst.order = orderOf(name);
  inst.isSystem = isSystemScope(name);
  inst.taint = Taint::Own;
  auto &list =
      inst.dst[0] || !inst.dstList.empty() ? inst.dstList : inst.srcList[0];
  const unsigned vector = name.has("v2")   ? 2
                          : name.has("v4") ? 4
                          : name.has("v8") ? 8
                                           : 1;
  const unsigned most = inst.space == Space::Global ? 32 : 16;
  if (inst.bytes * vector > most || (vector == 8 && inst.bytes != 4))
    throw PtxError("a vector of this type and size is not covered");
  if (vector == 1)
    list = {inst.dst[0] ? inst.dst[0] : inst.src[0]};
  inst.dst[0] = inst.src[0] = {};
  if (list.size() != vector)
    throw PtxError("the vector has another number of registers");
  for (const Reg &reg : list)
    if (reg && reg.bytes < inst.bytes)
      throw PtxError("a register is smaller than its type");
}

/// Hints and prefetches change nothing that a program sees.
static Step nothing(Warp &, const Inst &, uint32_t) { return Step::Next; }

static Step makePolicy(Warp &warp, const Inst &inst, uint32_t lanes) {
  forLanes(lanes, [&](unsigned lane) { warp.set(inst.dst[0], lane, 1); });
  return Step::Next;
}

/// Whatever is there is lost.
static Step discard(Warp &warp, const Inst &inst, uint32_t lanes) {
  forLanes(lanes, [&](unsigned lane) {
    const Place place =
        accessGlobal(warp, inst, lane, warp.addressOf(inst.memory[0], lane),
                     128, Access::Write);
    std::memset(place.bytes, 0xCD, 128);
    if (place.defined)
      std::memset(place.defined, 0, 128);
  });
  return Step::Next;
}

void moec::emulator::addMemoryRows(Rows &rows) {
  const std::string space = "?global|shared|shared::cta|shared::cluster|param";
  const std::string types =
      "b8|b16|b32|b64|u8|u16|u32|u64|s8|s16|s32|s64|f32|f64";
  const std::string hints =
      ".?ca|cg|cs|lu|cv|wb|wt.?nc.?L1::evict_last|L1::no_allocate."
      "?L2::cache_hint.?L2::64B|L2::128B|L2::256B";
  const std::string scopes = "cta|cluster|gpu|sys";
  for (const char *vector : {"", "v2|v4|v8."}) {
    const std::string end = std::string(".") + vector + types;
    const std::string to = *vector ? "L*" : "d*", from = *vector ? "K*" : "s*";
    rows.insert(
        rows.end(),
        {{"ld.?weak." + space + hints + end, to + " m [s8]", load, noteAccess},
         {"ld.volatile." + space + end, to + " m", load, noteAccess},
         {"ld.relaxed|acquire." + scopes + "." + space + hints + end,
          to + " m [s8]", load, noteAccess},
         {"st.?weak." + space + hints + end, "m " + from + " [s8]", store,
          noteAccess},
         {"st.volatile." + space + end, "m " + from, store, noteAccess},
         {"st.relaxed|release." + scopes + "." + space + hints + end,
          "m " + from + " [s8]", store, noteAccess}});
  }
  rows.insert(rows.end(),
              {{"prefetch.?global.L1|L2", "m", nothing},
               {"prefetch.?param.tensormap", "m", nothing},
               {"prefetchu.L1", "m", nothing},
               {"createpolicy.fractional.L2::evict_first|L2::evict_last|"
                "L2::evict_normal|L2::evict_unchanged.b64",
                "d8 [#1.0]", makePolicy},
               {"discard.?global.L2", "m #128", discard}});
}
