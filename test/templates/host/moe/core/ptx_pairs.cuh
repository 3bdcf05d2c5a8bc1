//===- ptx_pairs.cuh - arithmetic of pairs ----------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// In place of the instructions: each half is rounded once, to nearest even.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "templates/moe/core/types.cuh"

#include <bit>
#include <cmath>

namespace moe::ptx {

template <class T, class Function>
unsigned ofPairs(unsigned a, unsigned b, Function function) {
  const auto number = [](unsigned word, int i) {
    return toFloat(T{(unsigned short)(word >> i * 16)});
  };
  return packPair<T>(function(number(a, 0), number(b, 0)),
                     function(number(a, 1), number(b, 1)));
}
template <class T> unsigned multiplyPair(unsigned a, unsigned b) {
  return ofPairs<T>(a, b, [](float x, float y) { return x * y; });
}
template <class T> unsigned subtractPair(unsigned a, unsigned b) {
  return ofPairs<T>(a, b, [](float x, float y) { return x - y; });
}
/// A float that rounds to a 16-bit float as the sum of double precision does.
inline float roundedToOdd(double sum) {
  const float rounded = float(sum);
  if (double(rounded) == sum || std::bit_cast<unsigned>(rounded) % 2 != 0)
    return rounded;
  return std::nextafter(rounded,
                        sum > double(rounded) ? HUGE_VALF : -HUGE_VALF);
}
inline unsigned multiplyAddBfloats(unsigned a, unsigned b, unsigned c) {
  const auto number = [](unsigned word, int i) {
    return double(toFloat(bf16{(unsigned short)(word >> i * 16)}));
  };
  const auto sum = [&](int i) {
    return roundedToOdd(number(a, i) * number(b, i) + number(c, i));
  };
  return packPair<bf16>(sum(0), sum(1));
}
template <unsigned kMask, unsigned kBits> unsigned maskOr(unsigned word) {
  return (word & kMask) | kBits;
}

} // namespace moe::ptx
