//===- Comparison.cpp - comparisons and selections ------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// setp and selp of all types.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/instructions/Elementwise.h"

#include <cmath>

using namespace moec::emulator;

template <typename T> static bool isNan([[maybe_unused]] T a) {
  if constexpr (std::is_floating_point_v<T>)
    return std::isnan(a);
  return false;
}
template <typename T> static bool equal(T a, T b) { return a == b; }
/// Ordered: false where an operand is NaN.
template <typename T> static bool notEqual(T a, T b) { return a < b || a > b; }
template <typename T> static bool less(T a, T b) { return a < b; }
template <typename T> static bool lessEqual(T a, T b) { return a <= b; }
template <typename T> static bool greater(T a, T b) { return a > b; }
template <typename T> static bool greaterEqual(T a, T b) { return a >= b; }
// Unordered: true where an operand is NaN.
template <typename T> static bool equalNan(T a, T b) { return !notEqual(a, b); }
template <typename T> static bool notEqualNan(T a, T b) { return a != b; }
template <typename T> static bool lessNan(T a, T b) { return !(a >= b); }
template <typename T> static bool lessEqualNan(T a, T b) { return !(a > b); }
template <typename T> static bool greaterNan(T a, T b) { return !(a <= b); }
template <typename T> static bool greaterEqualNan(T a, T b) { return !(a < b); }
template <typename T> static bool ordered(T a, T b) {
  return !isNan(a) && !isNan(b);
}
template <typename T> static bool unordered(T a, T b) {
  return isNan(a) || isNan(b);
}

/// Joins the comparison with a predicate where the name says so, and gives its
/// complement to a second destination.
template <auto F>
static Step setPredicate(Warp &warp, const Inst &inst, uint32_t lanes) {
  if (inst.kind == 0 && !inst.dst[1])
    return compare<F>(warp, inst, lanes);
  const uint32_t other = inst.kind ? warp.predicate(inst.src[2]) : kAllLanes;
  Inst plain = inst;
  compare<F>(warp, plain, lanes);
  const uint32_t is = warp.word(inst.dst[0]);
  auto join = [&](uint32_t value) {
    return inst.kind == 2   ? value | other
           : inst.kind == 3 ? value ^ other
                            : value & other;
  };
  warp.setPredicate(inst.dst[0], lanes, join(is));
  if (inst.dst[1])
    warp.setPredicate(inst.dst[1], lanes, join(~is));
  return Step::Next;
}

static void noteJoin(Inst &inst, const NameParts &name) {
  inst.kind = name.has("and")   ? 1
              : name.has("or")  ? 2
              : name.has("xor") ? 3
                                : 0;
}

template <auto F, typename T>
static void addComparison(Rows &rows, const std::string &how,
                          const std::string &type) {
  const std::string size = std::to_string(sizeof(T));
  const std::string operands = "d0|p s" + size + " s" + size;
  rows.push_back(
      {"setp." + how + "." + type, operands, setPredicate<F>, noteJoin});
  rows.push_back({"setp." + how + ".and|or|xor." + type, operands + " s0",
                  setPredicate<F>, noteJoin});
}

template <typename T>
static void addOrders(Rows &rows, const std::string &type) {
  addComparison<less<T>, T>(rows, "lt|lo", type);
  addComparison<lessEqual<T>, T>(rows, "le|ls", type);
  addComparison<greater<T>, T>(rows, "gt|hi", type);
  addComparison<greaterEqual<T>, T>(rows, "ge|hs", type);
}

template <typename T>
static void addEqualities(Rows &rows, const std::string &type) {
  addComparison<equal<T>, T>(rows, "eq", type);
  addComparison<notEqual<T>, T>(rows, "ne", type);
}

template <typename T>
static void addFloats(Rows &rows, const std::string &type) {
  addEqualities<T>(rows, type);
  addOrders<T>(rows, type);
  addComparison<equalNan<T>, T>(rows, "equ", type);
  addComparison<notEqualNan<T>, T>(rows, "neu", type);
  addComparison<lessNan<T>, T>(rows, "ltu", type);
  addComparison<lessEqualNan<T>, T>(rows, "leu", type);
  addComparison<greaterNan<T>, T>(rows, "gtu", type);
  addComparison<greaterEqualNan<T>, T>(rows, "geu", type);
  addComparison<ordered<T>, T>(rows, "num", type);
  addComparison<unordered<T>, T>(rows, "nan", type);
}

template <typename T>
static Step select(Warp &warp, const Inst &inst, uint32_t lanes) {
  const uint32_t which = warp.predicate(inst.src[2]);
  const T *a = warp.lanesOf<T>(inst.src[0]), *b = warp.lanesOf<T>(inst.src[1]);
  T *to = warp.lanesOf<T>(inst.dst[0]);
  // A value that is not selected may be undefined.
  if (warp.cta.device.settings.checkUndefined)
    warp.setDefined(inst.dst[0], lanes,
                    warp.definedLanes(inst.src[2]) &
                        ((warp.definedLanes(inst.src[0]) & which) |
                         (warp.definedLanes(inst.src[1]) & ~which)));
  forLanes(lanes, [&](unsigned lane) {
    to[lane] = which >> lane & 1 ? a[lane] : b[lane];
  });
  return Step::Next;
}

static void ownTaint(Inst &inst, const NameParts &) { inst.taint = Taint::Own; }

void moec::emulator::addComparisonRows(Rows &rows) {
  addEqualities<uint16_t>(rows, "b16|u16|s16");
  addEqualities<uint32_t>(rows, "b32|u32|s32");
  addEqualities<uint64_t>(rows, "b64|u64|s64");
  addOrders<int16_t>(rows, "s16");
  addOrders<uint16_t>(rows, "u16");
  addOrders<int32_t>(rows, "s32");
  addOrders<uint32_t>(rows, "u32");
  addOrders<int64_t>(rows, "s64");
  addOrders<uint64_t>(rows, "u64");
  addFloats<float>(rows, "f32");
  addFloats<double>(rows, "f64");
  rows.insert(
      rows.end(),
      {{"selp.b16|u16|s16", "d2 s2 s2 s0", select<uint16_t>, ownTaint},
       {"selp.b32|u32|s32|f32", "d4 s4 s4 s0", select<uint32_t>, ownTaint},
       {"selp.b64|u64|s64|f64", "d8 s8 s8 s0", select<uint64_t>, ownTaint}});
}
