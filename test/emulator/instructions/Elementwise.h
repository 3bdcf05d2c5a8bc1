//===- Elementwise.h - instructions that compute lane by lane ---*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// map<F> executes a function of one lane's sources for all lanes.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_EMULATOR_INSTRUCTIONS_ELEMENTWISE_H
#define MOEC_TEST_EMULATOR_INSTRUCTIONS_ELEMENTWISE_H

#include "test/emulator/machine/Machine.h"
#include "test/emulator/parse/Rows.h"

#include <tuple>
#include <utility>

namespace moec::emulator {

namespace detail {

template <typename D, typename... S, size_t... I, typename F>
inline void mapLanes(Warp &warp, const Inst &inst, uint32_t lanes, F function,
                     std::index_sequence<I...>) {
  D *to = warp.lanesOf<D>(inst.dst[0]);
  const std::tuple<const S *...> from{warp.lanesOf<S>(inst.src[I])...};
  if (lanes == kAllLanes)
    for (unsigned lane = 0; lane < kLanes; ++lane)
      to[lane] = function(std::get<I>(from)[lane]...);
  else
    forLanes(lanes, [&](unsigned lane) {
      to[lane] = function(std::get<I>(from)[lane]...);
    });
}

template <auto F, typename D, typename... S>
inline Step mapStep(Warp &warp, const Inst &inst, uint32_t lanes, D (*)(S...)) {
  mapLanes<D, S...>(
      warp, inst, lanes, [](S... values) { return F(values...); },
      std::index_sequence_for<S...>());
  return Step::Next;
}

template <auto F, typename S>
inline Step compareStep(Warp &warp, const Inst &inst, uint32_t lanes,
                        bool (*)(S, S)) {
  const S *a = warp.lanesOf<S>(inst.src[0]), *b = warp.lanesOf<S>(inst.src[1]);
  uint32_t values = 0;
  for (unsigned lane = 0; lane < kLanes; ++lane)
    values |= uint32_t(F(a[lane], b[lane])) << lane;
  warp.setPredicate(inst.dst[0], lanes, values);
  return Step::Next;
}

} // namespace detail

/// dst = F(src...), lane by lane. F is a function of values.
template <auto F> Step map(Warp &warp, const Inst &inst, uint32_t lanes) {
  return detail::mapStep<F>(warp, inst, lanes, +F);
}

/// A predicate of two values.
template <auto F> Step compare(Warp &warp, const Inst &inst, uint32_t lanes) {
  return detail::compareStep<F>(warp, inst, lanes, +F);
}

template <typename T> constexpr const char *typeName();
#define MOEC_TYPE(type, name)                                                  \
  template <> constexpr const char *typeName<type>() { return name; }
MOEC_TYPE(int16_t, "s16")
MOEC_TYPE(uint16_t, "u16")
MOEC_TYPE(int32_t, "s32")
MOEC_TYPE(uint32_t, "u32")
MOEC_TYPE(int64_t, "s64")
MOEC_TYPE(uint64_t, "u64")
MOEC_TYPE(float, "f32")
MOEC_TYPE(double, "f64")
#undef MOEC_TYPE

/// Operands of `count` sources of the size of T after a destination of D.
template <typename D, typename T> std::string operandsOf(unsigned count) {
  std::string form = "d" + std::to_string(sizeof(D));
  for (unsigned i = 0; i < count; ++i)
    form += " s" + std::to_string(sizeof(T));
  return form;
}

template <typename T> using Unsigned = std::make_unsigned_t<T>;

} // namespace moec::emulator

#endif // MOEC_TEST_EMULATOR_INSTRUCTIONS_ELEMENTWISE_H
