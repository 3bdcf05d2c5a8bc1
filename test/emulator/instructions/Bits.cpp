//===- Bits.cpp - bits of registers ---------------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Logic, shifts, fields, permutations and counts.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/instructions/Elementwise.h"

#include <algorithm>
#include <bit>

using namespace moec::emulator;

template <typename T> static T bitAnd(T a, T b) { return T(a & b); }
template <typename T> static T bitOr(T a, T b) { return T(a | b); }
template <typename T> static T bitXor(T a, T b) { return T(a ^ b); }
template <typename T> static T bitNot(T a) { return T(~a); }

/// Amounts beyond the size shift all bits out.
template <typename T> static T shiftLeft(T a, uint32_t by) {
  return by >= sizeof(T) * 8 ? T(0) : T(a << by);
}
template <typename T> static T shiftRight(T a, uint32_t by) {
  const uint32_t most = sizeof(T) * 8 - 1;
  if (by > most)
    return std::is_signed_v<T> ? T(a >> most) : T(0);
  return T(a >> by);
}

template <typename T> static T extract(T a, uint32_t at, uint32_t count) {
  using U = Unsigned<T>;
  const uint32_t size = sizeof(T) * 8;
  at &= 255;
  count &= 255;
  if (count == 0)
    return 0;
  const bool isNegative = std::is_signed_v<T> && a < 0;
  // Beyond the last bit lies the sign.
  U field = at < size ? U(a) >> at : U(0);
  if (isNegative && at > 0)
    field |= at < size ? U(~U(0)) << (size - at) : U(~U(0));
  if (count >= size)
    return T(field);
  const U mask = U((U(1) << count) - 1);
  field &= mask;
  if (std::is_signed_v<T>) {
    const uint32_t sign = std::min(at + count - 1, size - 1);
    if (U(a) >> sign & 1)
      field |= U(~mask);
  }
  return T(field);
}

template <typename T>
static T insert(T from, T into, uint32_t at, uint32_t count) {
  const uint32_t size = sizeof(T) * 8;
  at &= 255;
  count &= 255;
  if (at >= size || count == 0)
    return into;
  T mask = count >= size ? T(~T(0)) : T((T(1) << count) - 1);
  mask = T(mask << at);
  return T((into & ~mask) | (T(from << at) & mask));
}

static uint32_t permute(uint32_t a, uint32_t b, uint32_t selector) {
  const uint64_t bytes = uint64_t(b) << 32 | a;
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    const uint32_t choice = selector >> (4 * i) & 15;
    auto byte = uint8_t(bytes >> (8 * (choice & 7)));
    if (choice & 8)
      byte = byte & 0x80 ? 0xFF : 0;
    result |= uint32_t(byte) << (8 * i);
  }
  return result;
}

static uint32_t funnelLeft(uint32_t lo, uint32_t hi, uint32_t by) {
  return uint32_t((uint64_t(hi) << 32 | lo) << (by & 31) >> 32);
}
static uint32_t funnelLeftClamped(uint32_t lo, uint32_t hi, uint32_t by) {
  return uint32_t((uint64_t(hi) << 32 | lo) << std::min(by, 32u) >> 32);
}
static uint32_t funnelRight(uint32_t lo, uint32_t hi, uint32_t by) {
  return uint32_t((uint64_t(hi) << 32 | lo) >> (by & 31));
}
static uint32_t funnelRightClamped(uint32_t lo, uint32_t hi, uint32_t by) {
  return uint32_t((uint64_t(hi) << 32 | lo) >> std::min(by, 32u));
}

template <typename T> static uint32_t population(T a) {
  return uint32_t(std::popcount(a));
}
template <typename T> static uint32_t leadingZeros(T a) {
  return uint32_t(std::countl_zero(a));
}
/// The place of the highest bit that differs from the sign; ~0 if none does.
template <typename T> static uint32_t highestBit(T a) {
  using U = Unsigned<T>;
  const U bits = std::is_signed_v<T> && a < 0 ? U(~a) : U(a);
  return bits ? uint32_t(sizeof(T) * 8 - 1) - uint32_t(std::countl_zero(bits))
              : ~0u;
}
template <typename T> static uint32_t highestShift(T a) {
  const uint32_t bit = highestBit(a);
  return bit == ~0u ? ~0u : uint32_t(sizeof(T) * 8 - 1) - bit;
}
template <typename T> static T reverseBits(T a) {
  T result = 0;
  for (size_t i = 0; i < sizeof(T) * 8; ++i)
    result |= T((a >> i & 1) << (sizeof(T) * 8 - 1 - i));
  return result;
}

/// Any function of three bits: bit 4 a + 2 b + c of the table.
static Step logic3(Warp &warp, const Inst &inst, uint32_t lanes) {
  const auto *a = warp.lanesOf<uint32_t>(inst.src[0]),
             *b = warp.lanesOf<uint32_t>(inst.src[1]),
             *c = warp.lanesOf<uint32_t>(inst.src[2]);
  auto *to = warp.lanesOf<uint32_t>(inst.dst[0]);
  forLanes(lanes, [&](unsigned lane) {
    const uint32_t x = a[lane], y = b[lane], z = c[lane];
    uint32_t result = 0;
    for (int i = 0; i < 8; ++i)
      if (inst.immediate >> i & 1)
        result |= (i & 4 ? x : ~x) & (i & 2 ? y : ~y) & (i & 1 ? z : ~z);
    to[lane] = result;
  });
  return Step::Next;
}

template <uint32_t (*F)(uint32_t, uint32_t)>
static Step predicateLogic(Warp &warp, const Inst &inst, uint32_t lanes) {
  warp.setPredicate(
      inst.dst[0], lanes,
      F(warp.predicate(inst.src[0]), warp.predicate(inst.src[1])));
  return Step::Next;
}
static Step predicateNot(Warp &warp, const Inst &inst, uint32_t lanes) {
  warp.setPredicate(inst.dst[0], lanes, ~warp.predicate(inst.src[0]));
  return Step::Next;
}

template <typename T> static void addLogicRows(Rows &rows) {
  const std::string type = ".b" + std::to_string(sizeof(T) * 8);
  const std::string one = operandsOf<T, T>(1), two = operandsOf<T, T>(2),
                    shift = one + " s4";
  using S = std::make_signed_t<T>;
  const std::string bits = std::to_string(sizeof(T) * 8);
  rows.insert(rows.end(), {{"and" + type, two, map<bitAnd<T>>},
                           {"or" + type, two, map<bitOr<T>>},
                           {"xor" + type, two, map<bitXor<T>>},
                           {"not" + type, one, map<bitNot<T>>},
                           {"shl" + type, shift, map<shiftLeft<T>>},
                           {"shr" + type, shift, map<shiftRight<T>>},
                           {"shr.u" + bits, shift, map<shiftRight<T>>},
                           {"shr.s" + bits, shift, map<shiftRight<S>>}});
  if constexpr (sizeof(T) > 2)
    rows.insert(rows.end(),
                {{"bfe.u" + bits, shift + " s4", map<extract<T>>},
                 {"bfe.s" + bits, shift + " s4", map<extract<S>>},
                 {"bfi" + type, two + " s4 s4", map<insert<T>>},
                 {"popc" + type, "d4 s" + std::to_string(sizeof(T)),
                  map<population<T>>},
                 {"clz" + type, "d4 s" + std::to_string(sizeof(T)),
                  map<leadingZeros<T>>},
                 {"brev" + type, one, map<reverseBits<T>>},
                 {"bfind.u" + bits, "d4 s" + std::to_string(sizeof(T)),
                  map<highestBit<T>>},
                 {"bfind.s" + bits, "d4 s" + std::to_string(sizeof(T)),
                  map<highestBit<S>>},
                 {"bfind.shiftamt.u" + bits, "d4 s" + std::to_string(sizeof(T)),
                  map<highestShift<T>>},
                 {"bfind.shiftamt.s" + bits, "d4 s" + std::to_string(sizeof(T)),
                  map<highestShift<S>>}});
}

void moec::emulator::addBitRows(Rows &rows) {
  addLogicRows<uint16_t>(rows);
  addLogicRows<uint32_t>(rows);
  addLogicRows<uint64_t>(rows);
  rows.insert(rows.end(),
              {{"and.pred", "d0 s0 s0", predicateLogic<bitAnd<uint32_t>>},
               {"or.pred", "d0 s0 s0", predicateLogic<bitOr<uint32_t>>},
               {"xor.pred", "d0 s0 s0", predicateLogic<bitXor<uint32_t>>},
               {"not.pred", "d0 s0", predicateNot},
               {"prmt.b32", "d4 s4 s4 s4", map<permute>},
               {"lop3.b32", "d4 s4 s4 s4 i", logic3},
               {"shf.l.wrap.b32", "d4 s4 s4 s4", map<funnelLeft>},
               {"shf.l.clamp.b32", "d4 s4 s4 s4", map<funnelLeftClamped>},
               {"shf.r.wrap.b32", "d4 s4 s4 s4", map<funnelRight>},
               {"shf.r.clamp.b32", "d4 s4 s4 s4", map<funnelRightClamped>}});
}
