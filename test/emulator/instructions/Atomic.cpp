//===- Atomic.cpp - atomic operations -------------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// atom and red of global and shared memory.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/machine/Memory.h"
#include "test/emulator/machine/Ordering.h"

#include <algorithm>

using namespace moec::emulator;

namespace {
enum Operation : uint8_t { Add, And, Or, Xor, Min, Max, Inc, Dec, Exch, Cas };
} // namespace

template <typename T> static T floatAdd(uint64_t a, uint64_t b) {
  using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  return std::bit_cast<T>(Bits(a)) + std::bit_cast<T>(Bits(b));
}

static uint64_t combine(const Inst &inst, uint64_t old, uint64_t b,
                        uint64_t c) {
  auto asSigned = [&](uint64_t value) {
    return inst.bytes == 4 ? int64_t(int32_t(value)) : int64_t(value);
  };
  switch (inst.kind) {
  case Add:
    if (inst.flag)
      return inst.bytes == 8 ? std::bit_cast<uint64_t>(floatAdd<double>(old, b))
                             : std::bit_cast<uint32_t>(floatAdd<float>(old, b));
    return old + b;
  case And:
    return old & b;
  case Or:
    return old | b;
  case Xor:
    return old ^ b;
  case Min:
    return inst.isSigned ? uint64_t(std::min(asSigned(old), asSigned(b)))
                         : std::min(old, b);
  case Max:
    return inst.isSigned ? uint64_t(std::max(asSigned(old), asSigned(b)))
                         : std::max(old, b);
  case Inc:
    return old >= b ? 0 : old + 1;
  case Dec:
    return old == 0 || old > b ? b : old - 1;
  case Exch:
    return b;
  default:
    return old == b ? c : old;
  }
}

static Step atomic(Warp &warp, const Inst &inst, uint32_t lanes) {
  requireDefined(warp, inst, inst.memory[0].base, lanes, "the address");
  const bool tracks = warp.cta.device.settings.checkUndefined;
  forLanes(lanes, [&](unsigned lane) {
    const uint64_t address = warp.addressOf(inst.memory[0], lane);
    const Place place = accessMemory(warp, inst, inst.space, lane, address,
                                     inst.bytes, Access::Atomic);
    uint64_t old = 0;
    std::memcpy(&old, place.bytes, inst.bytes);
    const uint64_t b = warp.value(inst.src[0], lane);
    const uint64_t c = inst.src[1] ? warp.value(inst.src[1], lane) : 0;
    const uint64_t value = combine(inst, old, b, c);
    std::memcpy(place.bytes, &value, inst.bytes);
    bool isDefined = true;
    if (place.defined && tracks) {
      for (uint32_t byte = 0; byte < inst.bytes; ++byte)
        isDefined &= place.defined[byte] != 0;
      const bool isNew = warp.isDefined(inst.src[0], 1u << lane) &&
                         (isDefined || inst.kind == Exch);
      std::memset(place.defined, isNew, inst.bytes);
    }
    if (inst.dst[0]) {
      warp.set(inst.dst[0], lane, old);
      warp.setDefined(inst.dst[0], 1u << lane, isDefined ? kAllLanes : 0);
    }
    noteStrongRead(warp, inst, lane, address);
    noteStrongWrite(warp, inst, lane, address, /*isAtomic=*/true);
    if (value != old)
      warp.cta.device.noteEffect();
  });
  return Step::Next;
}

static void noteAtomic(Inst &inst, const NameParts &name) {
  static constexpr std::string_view kNames[] = {
      "add", "and", "or", "xor", "min", "max", "inc", "dec", "exch", "cas"};
  for (const std::string_view &one : kNames)
    if (name.has(one))
      inst.kind = uint8_t(&one - kNames);
  inst.bytes = bytesOfType(name.last());
  inst.isSigned = name.last()[0] == 's';
  inst.flag = name.last()[0] == 'f';
  inst.space = spaceOf(name);
  inst.order = std::max(orderOf(name), Order::Relaxed);
  inst.isSystem = isSystemScope(name);
  inst.taint = Taint::Own;
}

void moec::emulator::addAtomicRows(Rows &rows) {
  const std::string where =
      ".?relaxed|acquire|release|acq_rel.?cta|cluster|gpu|sys."
      "?global|shared|shared::cta|shared::cluster.";
  for (const char *form : {"atom", "red"}) {
    const bool isAtom = form[0] == 'a';
    for (const char *bytes : {"4", "8"}) {
      const std::string size(bytes), bits = size == "4" ? "32" : "64";
      const std::string operands =
          (isAtom ? "d" + size + " m s" : "m s") + size;
      auto add = [&](const std::string &operation, const std::string &more) {
        rows.push_back(
            {form + where + operation, operands + more, atomic, noteAtomic});
      };
      add("add.u" + bits + "|s" + bits + "|f" + bits, "");
      add("and|or|xor.b" + bits, "");
      add("min|max.u" + bits + "|s" + bits, "");
      if (isAtom) {
        add("exch.b" + bits, "");
        add("cas.b" + bits, " s" + size);
      }
      if (size == "4")
        add("inc|dec.u32", "");
    }
  }
}
