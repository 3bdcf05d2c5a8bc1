//===- Integer.cpp - integer arithmetic -----------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// add to rem of 16, 32 and 64 bits, with the high and wide products, and dot
// products of bytes.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/instructions/Elementwise.h"

#include <algorithm>
#include <limits>

using namespace moec::emulator;

template <typename T> static T add(T a, T b) {
  return T(Unsigned<T>(a) + Unsigned<T>(b));
}

template <typename T> static T sub(T a, T b) {
  return T(Unsigned<T>(a) - Unsigned<T>(b));
}

template <typename T> static T mulLo(T a, T b) {
  return T(Unsigned<T>(uint64_t(Unsigned<T>(a)) * uint64_t(Unsigned<T>(b))));
}

// __int128 is an extension of the compilers that build this.
__extension__ using Wide = __int128;
__extension__ using UnsignedWide = unsigned __int128;

template <typename T> static T mulHi(T a, T b) {
  if constexpr (std::is_signed_v<T>)
    return T((Wide(a) * Wide(b)) >> (sizeof(T) * 8));
  else
    return T((UnsignedWide(a) * UnsignedWide(b)) >> (sizeof(T) * 8));
}

/// Twice the bits of T.
template <typename T> struct WideOf;
template <> struct WideOf<int16_t> {
  using Type = int32_t;
};
template <> struct WideOf<uint16_t> {
  using Type = uint32_t;
};
template <> struct WideOf<int32_t> {
  using Type = int64_t;
};
template <> struct WideOf<uint32_t> {
  using Type = uint64_t;
};

template <typename T> static typename WideOf<T>::Type mulWide(T a, T b) {
  using W = typename WideOf<T>::Type;
  return W(Unsigned<W>(W(a)) * Unsigned<W>(W(b)));
}

template <typename T> static T madLo(T a, T b, T c) {
  return add(mulLo(a, b), c);
}

template <typename T> static T madHi(T a, T b, T c) {
  return add(mulHi(a, b), c);
}

template <typename T>
static typename WideOf<T>::Type madWide(T a, T b, typename WideOf<T>::Type c) {
  return add(mulWide(a, b), c);
}

/// The hardware gives all ones where b is 0.
template <typename T> static T divide(T a, T b) {
  if (b == 0)
    return T(~T(0));
  if constexpr (std::is_signed_v<T>)
    if (b == T(-1))
      return sub(T(0), a);
  return T(a / b);
}

template <typename T> static T remainder(T a, T b) {
  if (b == 0)
    return a;
  if constexpr (std::is_signed_v<T>)
    if (b == T(-1))
      return 0;
  return T(a % b);
}

template <typename T> static T minimum(T a, T b) { return std::min(a, b); }
template <typename T> static T maximum(T a, T b) { return std::max(a, b); }
template <typename T> static T negate(T a) { return sub(T(0), a); }
template <typename T> static T absolute(T a) { return a < 0 ? negate(a) : a; }

/// Saturated to the range of 32 bits.
static int32_t addSat(int32_t a, int32_t b) {
  return int32_t(std::clamp<int64_t>(int64_t(a) + b,
                                     std::numeric_limits<int32_t>::min(),
                                     std::numeric_limits<int32_t>::max()));
}
static int32_t subSat(int32_t a, int32_t b) {
  return int32_t(std::clamp<int64_t>(int64_t(a) - b,
                                     std::numeric_limits<int32_t>::min(),
                                     std::numeric_limits<int32_t>::max()));
}

template <typename A, typename B>
static uint32_t dot4(uint32_t a, uint32_t b, uint32_t c) {
  for (int i = 0; i < 4; ++i)
    c += uint32_t(int32_t(A(a >> (8 * i))) * int32_t(B(b >> (8 * i))));
  return c;
}

template <typename T> static void addRowsOf(Rows &rows) {
  const std::string type = std::string(".") + typeName<T>();
  const std::string two = operandsOf<T, T>(2), three = operandsOf<T, T>(3);
  rows.insert(rows.end(), {{"add" + type, two, map<add<T>>},
                           {"sub" + type, two, map<sub<T>>},
                           {"mul.lo" + type, two, map<mulLo<T>>},
                           {"mul.hi" + type, two, map<mulHi<T>>},
                           {"mad.lo" + type, three, map<madLo<T>>},
                           {"mad.hi" + type, three, map<madHi<T>>},
                           {"div" + type, two, map<divide<T>>},
                           {"rem" + type, two, map<remainder<T>>},
                           {"min" + type, two, map<minimum<T>>},
                           {"max" + type, two, map<maximum<T>>}});
  if constexpr (std::is_signed_v<T>)
    rows.insert(rows.end(),
                {{"neg" + type, operandsOf<T, T>(1), map<negate<T>>},
                 {"abs" + type, operandsOf<T, T>(1), map<absolute<T>>}});
  if constexpr (sizeof(T) < 8) {
    using W = typename WideOf<T>::Type;
    const std::string wide = operandsOf<W, T>(2);
    rows.push_back({"mul.wide" + type, wide, map<mulWide<T>>});
    rows.push_back({"mad.wide" + type, wide + " s" + std::to_string(sizeof(W)),
                    map<madWide<T>>});
  }
}

void moec::emulator::addIntegerRows(Rows &rows) {
  addRowsOf<int16_t>(rows);
  addRowsOf<uint16_t>(rows);
  addRowsOf<int32_t>(rows);
  addRowsOf<uint32_t>(rows);
  addRowsOf<int64_t>(rows);
  addRowsOf<uint64_t>(rows);
  rows.insert(rows.end(),
              {{"add.sat.s32", "d4 s4 s4", map<addSat>},
               {"sub.sat.s32", "d4 s4 s4", map<subSat>},
               {"dp4a.s32.s32", "d4 s4 s4 s4", map<dot4<int8_t, int8_t>>},
               {"dp4a.s32.u32", "d4 s4 s4 s4", map<dot4<int8_t, uint8_t>>},
               {"dp4a.u32.s32", "d4 s4 s4 s4", map<dot4<uint8_t, int8_t>>},
               {"dp4a.u32.u32", "d4 s4 s4 s4", map<dot4<uint8_t, uint8_t>>}});
}
