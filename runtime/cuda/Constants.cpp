//===- Constants.cpp - a constant's numbers as bytes ----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rounding on bits, so that the result is the same on every host.
//
//===----------------------------------------------------------------------===//

#include "runtime/cuda/Constants.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

using namespace moec;

uint16_t moec::runtime::toBf16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value))
    return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

uint16_t moec::runtime::toF16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  float magnitude = std::fabs(value);
  if (std::isnan(value))
    return sign | 0x7e00;
  if (magnitude >= 65520.0f) // half way from the largest half to infinity
    return sign | 0x7c00;
  int exponent = 0;
  if (magnitude != 0)
    std::frexp(magnitude,
               &exponent); // magnitude = m * 2^exponent, m in [.5, 1)
  // The step of a half here: 2^-10 of its leading bit, 2^-24 at least.
  int step = std::max(exponent - 11, -24);
  float scaled = std::nearbyint(std::ldexp(magnitude, -step));
  // Counting steps from zero counts bit patterns, through every exponent.
  float rounded = std::ldexp(scaled, step);
  if (rounded == 0)
    return sign;
  std::frexp(rounded, &exponent);
  if (exponent - 1 < -14)
    return sign | static_cast<uint16_t>(std::ldexp(rounded, 24));
  auto fraction =
      static_cast<uint16_t>(std::ldexp(rounded, 11 - exponent)) & 0x3ff;
  return sign | static_cast<uint16_t>((exponent - 1 + 15) << 10) | fraction;
}

Result<std::string> moec::runtime::encodeConstant(const Value &value) {
  std::string bytes;
  auto append = [&](auto number) {
    char raw[sizeof(number)];
    std::memcpy(raw, &number, sizeof(number));
    bytes.append(raw, sizeof(number));
  };
  const std::string &type =
      value.elementTypes.empty() ? std::string() : value.elementTypes.front();
  for (double number : value.data) {
    if (type == "f32")
      append(static_cast<float>(number));
    else if (type == "bf16")
      append(toBf16(static_cast<float>(number)));
    else if (type == "f16")
      append(toF16(static_cast<float>(number)));
    else if (type == "i64")
      append(static_cast<int64_t>(number));
    else if (type == "i32")
      append(static_cast<int32_t>(number));
    else if (type == "i16")
      append(static_cast<int16_t>(number));
    else if (type == "i8")
      append(static_cast<int8_t>(number));
    else
      return Error{ErrorCode::InvalidManifest,
                   fmt::format("constant {} has element type '{}'; constants "
                               "may be f32, f16, bf16, i64, i32, i16 or i8",
                               value.name, type)};
  }
  return bytes;
}
