//===- Moves.cpp - moves between registers --------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// mov, packing and unpacking, addresses of spaces, clocks.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/instructions/Elementwise.h"

using namespace moec::emulator;

template <typename T> static T same(T a) { return a; }

static Step movePredicate(Warp &warp, const Inst &inst, uint32_t lanes) {
  warp.setPredicate(inst.dst[0], lanes, warp.predicate(inst.src[0]));
  return Step::Next;
}

static Step setPredicate(Warp &warp, const Inst &inst, uint32_t lanes) {
  warp.setPredicate(inst.dst[0], lanes, inst.immediate ? kAllLanes : 0);
  return Step::Next;
}

/// {a, b, ...} of one register: the first is the lowest.
static Step unpack(Warp &warp, const Inst &inst, uint32_t lanes) {
  const unsigned bits = unsigned(inst.src[0].bytes * 8 / inst.dstList.size());
  forLanes(lanes, [&](unsigned lane) {
    const uint64_t value = warp.value(inst.src[0], lane);
    for (size_t i = 0; i < inst.dstList.size(); ++i)
      if (inst.dstList[i])
        warp.set(inst.dstList[i], lane, value >> (bits * i));
  });
  return Step::Next;
}

static Step pack(Warp &warp, const Inst &inst, uint32_t lanes) {
  const auto &parts = inst.srcList[0];
  const auto bits = unsigned(inst.dst[0].bytes * 8 / parts.size());
  forLanes(lanes, [&](unsigned lane) {
    uint64_t value = 0;
    for (size_t i = 0; i < parts.size(); ++i)
      value |= warp.value(parts[i], lane) << (bits * i);
    warp.set(inst.dst[0], lane, value);
  });
  return Step::Next;
}

static void checkParts(Inst &inst, const NameParts &) {
  const auto &parts = inst.dstList.empty() ? inst.srcList[0] : inst.dstList;
  const Reg &whole = inst.dstList.empty() ? inst.dst[0] : inst.src[0];
  for (const Reg &part : parts)
    if (part && part.bytes * parts.size() != whole.bytes)
      throw PtxError("the parts do not fill the register");
}

static uint64_t toSharedGeneric(uint64_t a) {
  return (a & 0xFFFFFFFF) | kSharedWindow;
}
static uint64_t fromSharedGeneric(uint64_t a) { return a & 0xFFFFFFFF; }

/// The clocks count the instructions of the device.
static Step readClock(Warp &warp, const Inst &inst, uint32_t lanes) {
  forLanes(lanes, [&](unsigned lane) {
    warp.set(inst.dst[0], lane, warp.cta.device.steps);
  });
  return Step::Next;
}

void moec::emulator::addMoveRows(Rows &rows) {
  rows.insert(rows.end(),
              {// The clocks first: as registers they would be constants.
               {"mov.u64", "d8 #%clock64", readClock},
               {"mov.u64", "d8 #%globaltimer", readClock},
               {"mov.u32", "d4 #%clock", readClock},
               {"mov.b16|u16|s16|f16", "d2 s2", map<same<uint16_t>>},
               {"mov.b32|u32|s32|f32", "d4 s4", map<same<uint32_t>>},
               {"mov.b64|u64|s64|f64", "d8 s8", map<same<uint64_t>>},
               {"mov.pred", "d0 i", setPredicate},
               {"mov.pred", "d0 s0", movePredicate},
               {"mov.b16|b32|b64", "L* s*", unpack, checkParts},
               {"mov.b16|b32|b64", "d* K*", pack, checkParts},
               {"cvta.global.u64", "d8 s8", map<same<uint64_t>>},
               {"cvta.to.global.u64", "d8 s8", map<same<uint64_t>>},
               {"cvta.param.u64", "d8 s8", map<same<uint64_t>>},
               {"cvta.to.param.u64", "d8 s8", map<same<uint64_t>>},
               {"cvta.shared.u64", "d8 s8", map<toSharedGeneric>},
               {"cvta.to.shared.u64", "d8 s8", map<fromSharedGeneric>}});
}
