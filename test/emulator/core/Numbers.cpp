//===- Numbers.cpp - float formats of PTX ---------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tables of values and the encoders.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/core/Numbers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

using namespace moec::emulator;

static float decodeSmall(uint8_t code, const SmallFormat &format) {
  const int mantissa = format.mantissaBits;
  const int sign = code >> (format.exponentBits + mantissa) & 1;
  const int magnitude = code & ((1 << (format.exponentBits + mantissa)) - 1);
  const int exponent = magnitude >> mantissa;
  const int fraction = magnitude & ((1 << mantissa) - 1);
  float value;
  if (magnitude > format.maxCode)
    // Only e5m2 has infinities: the code after the largest finite one.
    value = format.exponentBits == 5 && fraction == 0
                ? std::numeric_limits<float>::infinity()
                : std::numeric_limits<float>::quiet_NaN();
  else if (exponent)
    value = std::ldexp(float((1 << mantissa) + fraction),
                       exponent - format.bias - mantissa);
  else
    value = std::ldexp(float(fraction), 1 - format.bias - mantissa);
  return sign ? -value : value;
}

uint8_t moec::emulator::encodeSmall(float value, const SmallFormat &format) {
  const int mantissa = format.mantissaBits;
  const auto sign =
      uint8_t(std::signbit(value) ? 1 << (format.exponentBits + mantissa) : 0);
  // A format without NaN gives the largest value without its sign.
  if (std::isnan(value))
    return format.nanCode ? format.nanCode : format.maxCode;
  const double magnitude = std::fabs(double(value));
  if (std::isinf(magnitude))
    return sign | format.maxCode;
  int exponent = magnitude > 0 ? std::ilogb(magnitude) : 1 - format.bias;
  if (exponent < 1 - format.bias)
    exponent = 1 - format.bias;
  const double steps =
      std::nearbyint(std::ldexp(magnitude, mantissa - exponent));
  const double code =
      std::ldexp(double(exponent + format.bias - 1), mantissa) + steps;
  return sign | (code > format.maxCode ? format.maxCode : uint8_t(code));
}

static SmallTable makeTable(const SmallFormat &format) {
  SmallTable table = {};
  const int codes = 1 << (1 + format.exponentBits + format.mantissaBits);
  for (int code = 0; code < 256; ++code)
    table[size_t(code)] = decodeSmall(uint8_t(code & (codes - 1)), format);
  return table;
}

const SmallTable &moec::emulator::valuesOf(const SmallFormat &format) {
  static const SmallTable e4m3 = makeTable(kE4M3), e5m2 = makeTable(kE5M2),
                          e2m1 = makeTable(kE2M1), e2m3 = makeTable(kE2M3),
                          e3m2 = makeTable(kE3M2);
  switch (format.exponentBits * 8 + format.mantissaBits) {
  case 4 * 8 + 3:
    return e4m3;
  case 5 * 8 + 2:
    return e5m2;
  case 2 * 8 + 1:
    return e2m1;
  case 2 * 8 + 3:
    return e2m3;
  default:
    return e3m2;
  }
}

float moec::emulator::decodeE8M0(uint8_t code) {
  return code == 255 ? std::numeric_limits<float>::quiet_NaN()
                     : std::ldexp(1.0f, int(code) - 127);
}

uint8_t moec::emulator::encodeE8M0RoundUp(float value) {
  if (std::isnan(value))
    return 255;
  const double magnitude = std::fabs(double(value));
  if (std::isinf(magnitude))
    return 254;
  if (magnitude == 0)
    return 0;
  int exponent = std::ilogb(magnitude);
  if (std::ldexp(1.0, exponent) < magnitude)
    ++exponent;
  return uint8_t(std::min(254, std::max(0, exponent + 127)));
}

static float halfValue(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  float value;
  if (exponent == 31) {
    // A NaN keeps its payload, as the hardware's conversion does.
    return std::bit_cast<float>(uint32_t(bits >> 15) << 31 | 0x7F800000u |
                                uint32_t(fraction) << 13);
  }
  if (exponent)
    value = std::ldexp(float(1024 + fraction), exponent - 25);
  else
    value = std::ldexp(float(fraction), -24);
  return bits & 0x8000 ? -value : value;
}

float moec::emulator::decodeHalf(uint16_t bits) {
  static const std::vector<float> table = [] {
    std::vector<float> values(1 << 16);
    for (uint32_t i = 0; i < values.size(); ++i)
      values[i] = halfValue(uint16_t(i));
    return values;
  }();
  return table[bits];
}

uint16_t moec::emulator::encodeHalf(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = uint16_t(bits >> 16 & 0x8000);
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000)
    return 0x7FFF;
  // 65520 and more round to infinity.
  if (magnitude >= 0x477FF000)
    return sign | 0x7C00;
  if (magnitude < 0x38800000) {
    // Below 2^-14: adding 0.5 leaves the rounded multiple of 2^-24 in the
    // mantissa of the sum.
    const float sum = std::bit_cast<float>(magnitude) + 0.5f;
    return sign | uint16_t(std::bit_cast<uint32_t>(sum) - 0x3F000000);
  }
  const uint32_t rounded = magnitude + 0xFFF + (magnitude >> 13 & 1);
  return sign | uint16_t((rounded - 0x38000000) >> 13);
}
