//===- Float.cpp - floating-point arithmetic that rounds to nearest -------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// f32, f64, and pairs of f16 and bf16. Results of approximations are the exact
// ones, rounded; the hardware's may differ in the last bit.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/core/Numbers.h"
#include "test/emulator/instructions/Elementwise.h"

#include <cmath>

using namespace moec::emulator;

template <typename T> static T add(T a, T b) { return a + b; }
template <typename T> static T sub(T a, T b) { return a - b; }
template <typename T> static T mul(T a, T b) { return a * b; }
template <typename T> static T fma(T a, T b, T c) { return std::fma(a, b, c); }
template <typename T> static T divide(T a, T b) { return a / b; }
template <typename T> static T negate(T a) { return -a; }
template <typename T> static T absolute(T a) { return std::fabs(a); }
template <typename T> static T root(T a) { return std::sqrt(a); }
template <typename T> static T reciprocal(T a) { return T(1) / a; }
template <typename T> static T copySign(T a, T b) {
  return std::copysign(b, a);
}
static float inverseRoot(float a) { return float(1 / std::sqrt(double(a))); }
static float power2(float a) { return std::exp2(a); }
static float logarithm2(float a) { return std::log2(a); }
static float tangent(float a) { return std::tanh(a); }
static float sine(float a) { return std::sin(a); }
static float cosine(float a) { return std::cos(a); }

/// The number where one operand is NaN; -0 is below +0.
template <typename T> static T minimum(T a, T b) {
  if (std::isnan(a))
    return std::isnan(b) ? std::numeric_limits<T>::quiet_NaN() : b;
  if (a == b)
    return std::signbit(a) ? a : b;
  return b < a ? b : a;
}
template <typename T> static T maximum(T a, T b) {
  if (std::isnan(a))
    return std::isnan(b) ? std::numeric_limits<T>::quiet_NaN() : b;
  if (a == b)
    return std::signbit(a) ? b : a;
  return b > a ? b : a;
}

/// NaN where one operand is.
static float minimumNan(float a, float b) {
  return std::isnan(a) || std::isnan(b) ? std::bit_cast<float>(0x7FFFFFFF)
                                        : minimum(a, b);
}
static float maximumNan(float a, float b) {
  return std::isnan(a) || std::isnan(b) ? std::bit_cast<float>(0x7FFFFFFF)
                                        : maximum(a, b);
}

static float flush(float a) {
  return std::fpclassify(a) == FP_SUBNORMAL ? std::copysign(0.0f, a) : a;
}
static float saturate(float a) {
  return a > 0 ? std::min(a, 1.0f) : 0.0f; // NaN becomes 0
}

// Subnormal operands and results become 0 of their sign.
template <auto F> static float flushed1(float a) { return flush(F(flush(a))); }
template <auto F> static float flushed2(float a, float b) {
  return flush(F(flush(a), flush(b)));
}
template <auto F> static float flushed3(float a, float b, float c) {
  return flush(F(flush(a), flush(b), flush(c)));
}
template <auto F> static float saturated2(float a, float b) {
  return saturate(F(a, b));
}
template <auto F> static float saturated3(float a, float b, float c) {
  return saturate(F(a, b, c));
}

//===----------------------------------------------------------------------===//
// Halves of 32 bits
//===----------------------------------------------------------------------===//

namespace {
struct Half {
  static float decode(uint16_t bits) { return decodeHalf(bits); }
  static uint16_t encode(float value) { return encodeHalf(value); }
};
struct Bfloat {
  static float decode(uint16_t bits) { return decodeBfloat(bits); }
  static uint16_t encode(float value) { return encodeBfloat(value); }
};
} // namespace

/// Rounds an exact result, given as a double, to a half once: to the float
/// whose last bit is odd if anything was lost, then to the half.
static float toOdd(double exact) {
  auto value = float(exact);
  if (double(value) == exact || std::isnan(exact) || std::isinf(value))
    return value;
  auto bits = std::bit_cast<uint32_t>(value);
  if (std::fabs(double(value)) > std::fabs(exact))
    --bits;
  return std::bit_cast<float>(bits | 1);
}

template <typename T, double (*F)(double, double)>
static uint16_t half2(uint16_t a, uint16_t b) {
  return T::encode(toOdd(F(T::decode(a), T::decode(b))));
}
/// A product of halves is exact in a double; its sum with a third may not be,
/// where their exponents are far apart: std::fma rounds it to odd enough.
template <typename T>
static uint16_t halfFma(uint16_t a, uint16_t b, uint16_t c) {
  const double product = double(T::decode(a)) * T::decode(b);
  const double addend = T::decode(c);
  double sum = product + addend;
  // The part that the sum lost (two-sum), put into its last bit.
  const double back = sum - product;
  const double lost = (product - (sum - back)) + (addend - back);
  if (lost != 0 && std::isfinite(sum)) {
    auto bits = std::bit_cast<uint64_t>(sum);
    if ((lost < 0) != (sum < 0))
      --bits;
    sum = std::bit_cast<double>(bits | 1);
  }
  return T::encode(toOdd(sum));
}
template <auto F> static uint32_t pair2(uint32_t a, uint32_t b) {
  return uint32_t(F(uint16_t(a >> 16), uint16_t(b >> 16))) << 16 |
         F(uint16_t(a), uint16_t(b));
}
template <auto F> static uint32_t pair3(uint32_t a, uint32_t b, uint32_t c) {
  return uint32_t(F(uint16_t(a >> 16), uint16_t(b >> 16), uint16_t(c >> 16)))
             << 16 |
         F(uint16_t(a), uint16_t(b), uint16_t(c));
}
/// Two floats in 64 bits.
template <auto F> static uint64_t twice2(uint64_t a, uint64_t b) {
  auto one = [&](unsigned at) {
    return uint64_t(std::bit_cast<uint32_t>(
               F(std::bit_cast<float>(uint32_t(a >> at)),
                 std::bit_cast<float>(uint32_t(b >> at)))))
           << at;
  };
  return one(0) | one(32);
}
template <auto F> static uint64_t twice3(uint64_t a, uint64_t b, uint64_t c) {
  auto one = [&](unsigned at) {
    return uint64_t(std::bit_cast<uint32_t>(
               F(std::bit_cast<float>(uint32_t(a >> at)),
                 std::bit_cast<float>(uint32_t(b >> at)),
                 std::bit_cast<float>(uint32_t(c >> at)))))
           << at;
  };
  return one(0) | one(32);
}
template <typename T> static uint16_t halfMin(uint16_t a, uint16_t b) {
  return T::encode(minimum(T::decode(a), T::decode(b)));
}
template <typename T> static uint16_t halfMax(uint16_t a, uint16_t b) {
  return T::encode(maximum(T::decode(a), T::decode(b)));
}
static uint32_t negatePair(uint32_t a) { return a ^ 0x80008000; }
static uint32_t absolutePair(uint32_t a) { return a & 0x7FFF7FFF; }
static uint16_t negateHalf(uint16_t a) { return a ^ 0x8000; }
static uint16_t absoluteHalf(uint16_t a) { return a & 0x7FFF; }

template <typename T> static void addHalfRows(Rows &rows, std::string type) {
  constexpr auto plus = half2<T, add<double>>, minus = half2<T, sub<double>>,
                 times = half2<T, mul<double>>;
  const std::string one = "." + type, pair = "." + type + "x2";
  rows.insert(rows.end(),
              {{"add.?rn" + one, "d2 s2 s2", map<plus>},
               {"sub.?rn" + one, "d2 s2 s2", map<minus>},
               {"mul.?rn" + one, "d2 s2 s2", map<times>},
               {"fma.rn" + one, "d2 s2 s2 s2", map<halfFma<T>>},
               {"min" + one, "d2 s2 s2", map<halfMin<T>>},
               {"max" + one, "d2 s2 s2", map<halfMax<T>>},
               {"neg" + one, "d2 s2", map<negateHalf>},
               {"abs" + one, "d2 s2", map<absoluteHalf>},
               {"add.?rn" + pair, "d4 s4 s4", map<pair2<plus>>},
               {"sub.?rn" + pair, "d4 s4 s4", map<pair2<minus>>},
               {"mul.?rn" + pair, "d4 s4 s4", map<pair2<times>>},
               {"fma.rn" + pair, "d4 s4 s4 s4", map<pair3<halfFma<T>>>},
               {"min" + pair, "d4 s4 s4", map<pair2<halfMin<T>>>},
               {"max" + pair, "d4 s4 s4", map<pair2<halfMax<T>>>},
               {"neg" + pair, "d4 s4", map<negatePair>},
               {"abs" + pair, "d4 s4", map<absolutePair>}});
}

void moec::emulator::addFloatRows(Rows &rows) {
  const char *one = "d4 s4", *two = "d4 s4 s4", *three = "d4 s4 s4 s4";
  rows.insert(
      rows.end(),
      {{"add.?rn.f32", two, map<add<float>>},
       {"add.?rn.ftz.f32", two, map<flushed2<add<float>>>},
       {"add.?rn.sat.f32", two, map<saturated2<add<float>>>},
       {"sub.?rn.f32", two, map<sub<float>>},
       {"sub.?rn.ftz.f32", two, map<flushed2<sub<float>>>},
       {"sub.?rn.sat.f32", two, map<saturated2<sub<float>>>},
       {"mul.?rn.f32", two, map<mul<float>>},
       {"mul.?rn.ftz.f32", two, map<flushed2<mul<float>>>},
       {"mul.?rn.sat.f32", two, map<saturated2<mul<float>>>},
       {"fma.rn.f32", three, map<fma<float>>},
       {"fma.rn.ftz.f32", three, map<flushed3<fma<float>>>},
       {"fma.rn.sat.f32", three, map<saturated3<fma<float>>>},
       {"div.rn|approx|full.f32", two, map<divide<float>>},
       {"div.rn|approx|full.ftz.f32", two, map<flushed2<divide<float>>>},
       {"min.f32", two, map<minimum<float>>},
       {"max.f32", two, map<maximum<float>>},
       {"min.ftz.f32", two, map<flushed2<minimum<float>>>},
       {"max.ftz.f32", two, map<flushed2<maximum<float>>>},
       {"min.NaN.f32", two, map<minimumNan>},
       {"max.NaN.f32", two, map<maximumNan>},
       {"neg.f32", one, map<negate<float>>},
       {"abs.f32", one, map<absolute<float>>},
       {"neg.ftz.f32", one, map<flushed1<negate<float>>>},
       {"abs.ftz.f32", one, map<flushed1<absolute<float>>>},
       {"sqrt.rn|approx.f32", one, map<root<float>>},
       {"sqrt.rn|approx.ftz.f32", one, map<flushed1<root<float>>>},
       {"rsqrt.approx.f32", one, map<inverseRoot>},
       {"rsqrt.approx.ftz.f32", one, map<flushed1<inverseRoot>>},
       {"rcp.rn|approx.f32", one, map<reciprocal<float>>},
       {"rcp.rn|approx.ftz.f32", one, map<flushed1<reciprocal<float>>>},
       {"ex2.approx.f32", one, map<power2>},
       {"ex2.approx.ftz.f32", one, map<flushed1<power2>>},
       {"lg2.approx.f32", one, map<logarithm2>},
       {"lg2.approx.ftz.f32", one, map<flushed1<logarithm2>>},
       {"tanh.approx.f32", one, map<tangent>},
       {"sin.approx.?ftz.f32", one, map<sine>},
       {"cos.approx.?ftz.f32", one, map<cosine>},
       {"add.?rn.f32x2", "d8 s8 s8", map<twice2<add<float>>>},
       {"add.?rn.ftz.f32x2", "d8 s8 s8", map<twice2<flushed2<add<float>>>>},
       {"sub.?rn.f32x2", "d8 s8 s8", map<twice2<sub<float>>>},
       {"sub.?rn.ftz.f32x2", "d8 s8 s8", map<twice2<flushed2<sub<float>>>>},
       {"mul.?rn.f32x2", "d8 s8 s8", map<twice2<mul<float>>>},
       {"mul.?rn.ftz.f32x2", "d8 s8 s8", map<twice2<flushed2<mul<float>>>>},
       {"fma.rn.f32x2", "d8 s8 s8 s8", map<twice3<fma<float>>>},
       {"fma.rn.ftz.f32x2", "d8 s8 s8 s8", map<twice3<flushed3<fma<float>>>>},
       {"copysign.f32", two, map<copySign<float>>},
       {"copysign.f64", "d8 s8 s8", map<copySign<double>>},
       {"add.?rn.f64", "d8 s8 s8", map<add<double>>},
       {"sub.?rn.f64", "d8 s8 s8", map<sub<double>>},
       {"mul.?rn.f64", "d8 s8 s8", map<mul<double>>},
       {"fma.rn.f64", "d8 s8 s8 s8", map<fma<double>>},
       {"div.rn.f64", "d8 s8 s8", map<divide<double>>},
       {"min.f64", "d8 s8 s8", map<minimum<double>>},
       {"max.f64", "d8 s8 s8", map<maximum<double>>},
       {"neg.f64", "d8 s8", map<negate<double>>},
       {"abs.f64", "d8 s8", map<absolute<double>>},
       {"sqrt.rn.f64", "d8 s8", map<root<double>>},
       {"rcp.rn.f64", "d8 s8", map<reciprocal<double>>}});
  addHalfRows<Half>(rows, "f16");
  addHalfRows<Bfloat>(rows, "bf16");
}
