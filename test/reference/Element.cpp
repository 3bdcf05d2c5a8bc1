//===- Element.cpp - the reference's own element types --------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Conversions from the definition of a binary float format: a sign bit, an
// exponent field and a mantissa field. Doubles hold every value of every row
// exactly, so that one rounding in double is the format's rounding.
//
//===----------------------------------------------------------------------===//

#include "test/reference/Element.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

namespace moec::reference {

static constexpr std::array<Element, 13> kElements = {{
    {"f32", 4, true, 8, 23},
    {"f16", 2, true, 5, 10},
    {"bf16", 2, true, 8, 7},
    {"f8E4M3FN", 1, true, 4, 3, true},
    {"f8E5M2", 1, true, 5, 2},
    {"f6E3M2FN", 1, true, 3, 2, true, false, false, 6},
    {"f6E2M3FN", 1, true, 2, 3, true, false, false, 6},
    {"f4E2M1FN", 1, true, 2, 1, true, false, false, 4},
    {"f8E8M0FNU", 1, true, 8, 0, true, true, true},
    {"i4", 1, false, 0, 0, false, false, false, 4},
    {"i8", 1, false, 0, 0},
    {"i32", 4, false, 0, 0},
    {"i64", 8, false, 0, 0},
}};

const Element *findElement(std::string_view name) {
  for (const Element &element : kElements)
    if (element.name == name)
      return &element;
  return nullptr;
}

static uint64_t readBits(const void *array, int64_t index, int64_t bits) {
  const char *first = static_cast<const char *>(array) + index * bits / 8;
  const int64_t offset = index * bits % 8;
  uint64_t word = 0;
  std::memcpy(&word, first, (offset + bits + 7) / 8);
  return word >> offset & (~uint64_t(0) >> (64 - bits));
}

static void writeBits(void *array, int64_t index, int64_t bits,
                      uint64_t value) {
  char *first = static_cast<char *>(array) + index * bits / 8;
  const int64_t offset = index * bits % 8;
  uint64_t word = 0;
  std::memcpy(&word, first, (offset + bits + 7) / 8);
  word &= ~(~uint64_t(0) >> (64 - bits) << offset);
  word |= value << offset;
  std::memcpy(first, &word, (offset + bits + 7) / 8);
}

static double decodeFloat(const Element &element, uint64_t bits) {
  if (element.isPower)
    return bits == 255 ? std::numeric_limits<double>::quiet_NaN()
                       : std::ldexp(1.0, int(bits) - 127);
  const int mantissaBits = element.mantissaBits;
  const int exponentMask = (1 << element.exponentBits) - 1;
  const int bias = exponentMask >> 1;
  const int64_t mantissa = bits & ((uint64_t(1) << mantissaBits) - 1);
  const int exponent = (bits >> mantissaBits) & exponentMask;
  const bool negative = (bits >> (mantissaBits + element.exponentBits)) & 1;
  double value;
  const bool allSet =
      exponent == exponentMask && mantissa == (int64_t(1) << mantissaBits) - 1;
  if (element.finiteOnly && element.hasNan && allSet)
    value = std::numeric_limits<double>::quiet_NaN();
  else if (exponent == exponentMask && !element.finiteOnly)
    value = mantissa ? std::numeric_limits<double>::quiet_NaN()
                     : std::numeric_limits<double>::infinity();
  else if (exponent == 0)
    value = std::ldexp(double(mantissa), 1 - bias - mantissaBits);
  else
    value = std::bit_cast<double>(uint64_t(exponent - bias + 1023) << 52 |
                                  uint64_t(mantissa) << (52 - mantissaBits));
  return negative ? -value : value;
}

static bool encodeNormal(const Element &element, double value,
                         uint64_t &result);

static uint64_t encodeFloat(const Element &element, double value) {
  if (element.isPower)
    return std::isnan(value)
               ? 255
               : uint64_t(std::ilogb(roundTo(element, value)) + 127);
  const int mantissaBits = element.mantissaBits;
  const uint64_t exponentMask = (uint64_t(1) << element.exponentBits) - 1;
  const int bias = int(exponentMask >> 1);
  const uint64_t sign = uint64_t(std::signbit(value))
                        << (mantissaBits + element.exponentBits);
  if (std::isnan(value) && element.finiteOnly)
    return exponentMask << mantissaBits | ((uint64_t(1) << mantissaBits) - 1);
  if (std::isnan(value))
    return sign | exponentMask << mantissaBits |
           uint64_t(1) << (mantissaBits - 1);
  const double rounded = std::fabs(roundTo(element, value));
  if (std::isinf(rounded))
    return sign | exponentMask << mantissaBits;
  if (rounded == 0)
    return sign;
  int exponent = std::ilogb(rounded);
  if (exponent < 1 - bias) // subnormal
    return sign | uint64_t(std::ldexp(rounded, bias - 1 + mantissaBits));
  const uint64_t mantissa =
      uint64_t(std::ldexp(rounded, mantissaBits - exponent)) -
      (uint64_t(1) << mantissaBits);
  return sign | uint64_t(exponent + bias) << mantissaBits | mantissa;
}

/// Rounds a double to the mantissa of a format in integers, to nearest with
/// ties to even. Returns the bits of the rounded double; nothing if the result
/// is not normal in the format.
static std::optional<uint64_t> roundNormal(const Element &element,
                                           double value) {
  const int dropped = 52 - element.mantissaBits;
  const int bias = ((1 << element.exponentBits) - 1) >> 1;
  const uint64_t given = std::bit_cast<uint64_t>(value);
  const uint64_t sign = uint64_t(1) << 63;
  // Half of the last kept place, less one where the kept part is even.
  const uint64_t bits = (given & ~sign) + (uint64_t(1) << (dropped - 1)) - 1 +
                        ((given >> dropped) & 1);
  const int exponent = int(bits >> 52) - 1023;
  if (exponent < 2 - bias || exponent >= bias || element.isPower)
    return std::nullopt;
  return (given & sign) | bits >> dropped << dropped;
}

static bool encodeNormal(const Element &element, double value,
                         uint64_t &result) {
  const std::optional<uint64_t> bits = roundNormal(element, value);
  if (!bits)
    return false;
  const int mantissaBits = element.mantissaBits;
  const int bias = ((1 << element.exponentBits) - 1) >> 1;
  const int exponent = int(*bits >> 52 & 0x7FF) - 1023;
  const uint64_t kept =
      (*bits >> (52 - mantissaBits)) & ((uint64_t(1) << mantissaBits) - 1);
  result = *bits >> 63 << (mantissaBits + element.exponentBits) |
           uint64_t(exponent + bias) << mantissaBits | kept;
  return true;
}

/// The largest number of a float without infinities.
static double largestFinite(const Element &element) {
  const int bias = ((1 << element.exponentBits) - 1) >> 1;
  // The code of a NaN would have been one step more.
  const double steps = element.hasNan ? 2 : 1;
  return std::ldexp(2.0 - std::ldexp(steps, -element.mantissaBits), bias + 1);
}

double roundTo(const Element &element, double value) {
  if (!element.isFloat) {
    const double rounded = std::isnan(value) ? 0 : std::nearbyint(value);
    return element.bits() == 4   ? std::clamp(rounded, 0.0, 15.0)
           : element.bits() == 8 ? std::clamp(rounded, -127.0, 127.0)
                                 : rounded;
  }
  if (const std::optional<uint64_t> bits = roundNormal(element, value))
    return std::bit_cast<double>(*bits);
  if (element.isPower) {
    // The nearer power of two, the one below 1.5 times itself.
    int exponent = 0;
    const double part = std::frexp(value, &exponent); // from 1/2 to 1
    if (std::isnan(value))
      return value;
    return std::ldexp(
        1.0, std::clamp(part < 0.75 ? exponent - 1 : exponent, -127, 127));
  }
  if (element.finiteOnly && std::fabs(value) >= largestFinite(element))
    return std::copysign(largestFinite(element), value);
  if (!std::isfinite(value) || value == 0)
    return value;
  const int bias = ((1 << element.exponentBits) - 1) >> 1;
  const int exponent = std::max(std::ilogb(value), 1 - bias);
  const int shift = element.mantissaBits - exponent;
  // nearbyint rounds to even in the default rounding mode.
  const double rounded =
      std::ldexp(std::nearbyint(std::ldexp(value, shift)), -shift);
  const double largest =
      std::ldexp(2.0 - std::ldexp(1.0, -element.mantissaBits), bias);
  if (!element.finiteOnly && std::fabs(rounded) > largest)
    return std::copysign(std::numeric_limits<double>::infinity(), value);
  return rounded;
}

double load(const Element &element, const void *array, int64_t index) {
  const uint64_t bits = readBits(array, index, element.bits());
  if (element.isFloat)
    return decodeFloat(element, bits);
  return element.bits() == 4    ? double(bits)
         : element.bits() == 8  ? double(int8_t(bits))
         : element.bits() == 32 ? double(int32_t(bits))
                                : double(int64_t(bits));
}

void store(const Element &element, void *array, int64_t index, double value) {
  uint64_t bits = 0;
  if (!element.isFloat)
    bits = uint64_t(int64_t(roundTo(element, value))) &
           ~uint64_t(0) >> (64 - element.bits());
  else if (!encodeNormal(element, value, bits))
    bits = encodeFloat(element, value);
  writeBits(array, index, element.bits(), bits);
}

/// The numbers of all codes of an element of at most 16 bits.
static const std::vector<double> &numbersOf(const Element &element) {
  static const auto tables = [] {
    std::array<std::vector<double>, kElements.size()> ofAll;
    for (size_t i = 0; i < ofAll.size(); ++i) {
      if (kElements[i].bits() > 16)
        continue;
      ofAll[i].resize(size_t(1) << kElements[i].bits());
      for (uint64_t code = 0; code < ofAll[i].size(); ++code)
        ofAll[i][code] = load(kElements[i], &code, 0);
    }
    return ofAll;
  }();
  return tables[size_t(&element - kElements.data())];
}

void loadMany(const Element &element, const void *source, int64_t count,
              double *destination) {
  if (element.isFloat && element.exponentBits == 8 && !element.isPower) {
    // f32 and bf16 are the upper bits of an f32.
    const int shift = 32 - 8 * int(element.bytes);
    for (int64_t i = 0; i < count; ++i) {
      uint32_t bits = 0;
      std::memcpy(&bits, static_cast<const char *>(source) + i * element.bytes,
                  element.bytes);
      bits <<= shift;
      float value;
      std::memcpy(&value, &bits, sizeof(value));
      destination[i] = value;
    }
    return;
  }
  if (element.bits() <= 16) {
    const double *numbers = numbersOf(element).data();
    const auto *bytes = static_cast<const uint8_t *>(source);
    for (int64_t i = 0; i < count; ++i)
      destination[i] =
          numbers[element.bits() == 8    ? bytes[i]
                  : element.bits() == 16 ? bytes[2 * i] | bytes[2 * i + 1] << 8
                  : element.bits() == 4  ? bytes[i / 2] >> i % 2 * 4 & 15
                                         : readBits(source, i, element.bits())];
    return;
  }
  for (int64_t i = 0; i < count; ++i)
    destination[i] = load(element, source, i);
}

} // namespace moec::reference
