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
template <unsigned kMask, unsigned kBits> unsigned maskOr(unsigned word) {
  return (word & kMask) | kBits;
}

} // namespace moe::ptx
