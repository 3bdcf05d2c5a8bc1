//===- Numbers.h - float formats of PTX -------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Decoding and encoding of f16, bf16 and the formats of at most 8 bits. Every
// encoder rounds to the nearest value, ties to even.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_EMULATOR_CORE_NUMBERS_H
#define MOEC_TEST_EMULATOR_CORE_NUMBERS_H

#include <array>
#include <bit>
#include <cstdint>

namespace moec::emulator {

/// A format of at most 8 bits: sign, exponent, mantissa. `maxCode` is the
/// largest finite code without its sign; larger magnitudes saturate to it.
/// `nanCode` is what NaN becomes; 0 if the format has none.
struct SmallFormat {
  int exponentBits, mantissaBits, bias;
  uint8_t maxCode, nanCode;
};
inline constexpr SmallFormat kE4M3 = {4, 3, 7, 0x7E, 0x7F};
inline constexpr SmallFormat kE5M2 = {5, 2, 15, 0x7B, 0x7F};
inline constexpr SmallFormat kE2M1 = {2, 1, 1, 0x07, 0};
inline constexpr SmallFormat kE2M3 = {2, 3, 1, 0x1F, 0};
inline constexpr SmallFormat kE3M2 = {3, 2, 3, 0x1F, 0};

/// The code of `value`, saturated to the largest finite one.
uint8_t encodeSmall(float value, const SmallFormat &format);

/// The values of all codes of a format; higher bits of a code are ignored.
using SmallTable = std::array<float, 256>;
const SmallTable &valuesOf(const SmallFormat &format);

/// A power of two, of 8 bits without a sign; 255 is NaN.
float decodeE8M0(uint8_t code);
/// The smallest power of two that is not below `value`.
uint8_t encodeE8M0RoundUp(float value);

float decodeHalf(uint16_t bits);
uint16_t encodeHalf(float value);

inline float decodeBfloat(uint16_t bits) {
  return std::bit_cast<float>(uint32_t(bits) << 16);
}

inline uint16_t encodeBfloat(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000)
    return 0x7FFF;
  return uint16_t((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

} // namespace moec::emulator

#endif // MOEC_TEST_EMULATOR_CORE_NUMBERS_H
