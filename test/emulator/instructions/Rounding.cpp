//===- Rounding.cpp - floating-point arithmetic in other roundings --------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rounding to zero, down and up. This file is compiled with -frounding-math.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/instructions/Elementwise.h"

#include <cfenv>
#include <cmath>

using namespace moec::emulator;

namespace {
/// The rounding of the host while it lives.
class Rounding {
public:
  explicit Rounding(int mode) : before(std::fegetround()) {
    std::fesetround(mode);
  }
  ~Rounding() { std::fesetround(before); }

private:
  int before;
};
} // namespace

// Values pass through memory, so that no compiler computes before the rounding
// is set or after it is restored.
template <int Mode> static float add(float a, float b) {
  Rounding rounding(Mode);
  volatile float left = a, right = b, sum = left + right;
  return sum;
}
template <int Mode> static float sub(float a, float b) {
  Rounding rounding(Mode);
  volatile float left = a, right = b, difference = left - right;
  return difference;
}
template <int Mode> static float mul(float a, float b) {
  Rounding rounding(Mode);
  volatile float left = a, right = b, product = left * right;
  return product;
}
template <int Mode> static float fma(float a, float b, float c) {
  Rounding rounding(Mode);
  volatile float x = a, y = b, z = c, sum = std::fma(x, y, z);
  return sum;
}
template <int Mode> static float divide(float a, float b) {
  Rounding rounding(Mode);
  volatile float left = a, right = b, quotient = left / right;
  return quotient;
}
template <int Mode> static float root(float a) {
  Rounding rounding(Mode);
  volatile float value = a, result = std::sqrt(value);
  return result;
}

template <int Mode> static void addRowsOf(Rows &rows, const char *rounding) {
  const std::string end = std::string(".") + rounding + ".f32";
  rows.insert(rows.end(), {{"add" + end, "d4 s4 s4", map<add<Mode>>},
                           {"sub" + end, "d4 s4 s4", map<sub<Mode>>},
                           {"mul" + end, "d4 s4 s4", map<mul<Mode>>},
                           {"fma" + end, "d4 s4 s4 s4", map<fma<Mode>>},
                           {"div" + end, "d4 s4 s4", map<divide<Mode>>},
                           {"sqrt" + end, "d4 s4", map<root<Mode>>}});
}

void moec::emulator::addRoundingRows(Rows &rows) {
  addRowsOf<FE_TOWARDZERO>(rows, "rz");
  addRowsOf<FE_DOWNWARD>(rows, "rm");
  addRowsOf<FE_UPWARD>(rows, "rp");
}
