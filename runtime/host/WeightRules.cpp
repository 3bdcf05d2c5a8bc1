//===- WeightRules.cpp - scales and codes of float weights ----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Codes are found in the list of a type's numbers.
//
//===----------------------------------------------------------------------===//

#include "runtime/host/WeightRules.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

using namespace moec;
using namespace moec::host;

namespace {

/// The exponent of the largest number, and bits of its fraction.
struct FloatShape {
  int exponent, fraction;
};

FloatShape shapeOf(Storage storage) {
  switch (storage) {
  case Storage::E4M3:
    return {8, 3};
  case Storage::E5M2:
    return {15, 2};
  case Storage::E3M2:
    return {4, 2};
  case Storage::E2M3:
    return {2, 3};
  default:
    return {2, 1}; // E2M1
  }
}

constexpr int kExponentBias = 127;
constexpr float kLeast = 1e-10f;
/// The largest scale of all is the largest number that its type has.
constexpr float kLargestScale = 448;

} // namespace

Result<WeightRules> WeightRules::of(const WeightFormat &format) {
  WeightRules made;
  made.format = format;
  made.storage = storageOf(format.element);
  made.scaleStorage = storageOf(format.scale);
  constexpr Storage kCodes[] = {Storage::E4M3, Storage::E5M2, Storage::E3M2,
                                Storage::E2M3, Storage::E2M1, Storage::I8,
                                Storage::I4};
  constexpr Storage kScales[] = {Storage::F32, Storage::F16, Storage::BF16,
                                 Storage::E4M3, Storage::UE8M0};
  const auto has = [](auto &list, Storage what) {
    return std::find(std::begin(list), std::end(list), what) != std::end(list);
  };
  const bool powers = made.scaleStorage == Storage::UE8M0;
  if (!has(kCodes, made.storage) || !has(kScales, made.scaleStorage) ||
      (format.zeroPoint && made.storage != Storage::I4) ||
      (format.second != (made.scaleStorage == Storage::E4M3)) ||
      (made.isInteger() && (powers || format.second)))
    return Error{
        ErrorCode::Refused,
        fmt::format("no rule makes {} with scales of {}{}{}; accepted: f8, f6 "
                    "and f4 types, i8 and i4, with scales of f32, f16 or bf16, "
                    "floats also with those of f8E8M0FNU, or of f8E4M3FN "
                    "below one of f32, i4 also with zero points",
                    format.element,
                    format.scale.empty() ? "none" : format.scale,
                    format.second ? " below one of f32" : "",
                    format.zeroPoint ? " and zero points" : "")};
  const auto count = 1u << (storageBits(made.storage) - 1);
  for (unsigned code = 0; !made.isInteger() && code < count; ++code) {
    const float value = fromCode(made.storage, uint8_t(code));
    if (!std::isfinite(value))
      break; // what follows is no number either
    made.values.push_back(value);
  }
  return made;
}

float WeightRules::largestCode() const {
  if (storage == Storage::I8)
    return 127;
  if (storage == Storage::I4)
    return format.zeroPoint ? 15 : 7;
  return values.back();
}

/// To nearest, ties to the even code, saturated.
uint8_t WeightRules::nearest(float number) const {
  const float size = std::fabs(number);
  size_t code = size_t(std::lower_bound(values.begin(), values.end(), size) -
                       values.begin());
  if (code == values.size())
    --code;
  else if (code > 0 && values[code] != size) {
    const double below = double(size) - values[code - 1];
    const double above = double(values[code]) - size;
    if (below < above || (below == above && code % 2 == 1))
      --code;
  }
  const auto sign = std::signbit(number) ? 1u << (storageBits(storage) - 1) : 0;
  return uint8_t(code | sign);
}

/// The code of a scale that is a power of two.
uint8_t WeightRules::powerOfTwo(float largest) const {
  const std::string rule = !format.scaleRule.empty()  ? format.scaleRule
                           : storage == Storage::E2M1 ? "even"
                                                      : "ceil";
  const FloatShape shape = shapeOf(storage);
  int exponent = 0;
  if (rule == "ceil") {
    const float size = largest / largestCode();
    if (size == 0 || !std::isfinite(size))
      return size == 0 ? 0 : 254;
    exponent = std::ilogb(size);
    exponent += std::ldexp(1.0f, exponent) < size;
  } else {
    // By even rounded to the bits that a code has, half up.
    const uint32_t half = rule == "even" ? 1u << (22 - shape.fraction) : 0;
    exponent = int((std::bit_cast<uint32_t>(largest) + half) >> 23) -
               kExponentBias - shape.exponent;
  }
  return uint8_t(std::clamp(exponent + kExponentBias, 0, 254));
}

float WeightRules::secondScale(float largest) const {
  return largest == 0 ? 1 : largest / (kLargestScale * largestCode());
}

void WeightRules::storeScale(WeightRange range, float second,
                             std::byte *to) const {
  const float most = largestCode();
  const float largest = range.largest();
  const bool ofTensor = format.groupRows == -1 && format.groupColumns == -1;
  const bool ofChannel = format.groupRows == 1 && format.groupColumns == -1;
  float scale = 0;
  if (scaleStorage == Storage::UE8M0) {
    *to = std::byte(powerOfTwo(largest));
    return;
  }
  if (format.second)
    scale = largest / most / second;
  else if (format.zeroPoint)
    scale = std::max(range.most - range.least, kLeast) / most;
  else if (ofTensor && !isInteger())
    scale = largest == 0 ? 1 : largest / most;
  else if (ofChannel && !isInteger())
    scale = std::max(largest / most, 1 / (most * 512));
  else
    scale = std::max(largest, kLeast) / most;
  storeFloats(scaleStorage, &scale, 1, to);
}

float WeightRules::factor(Storage kept, const std::byte *scale,
                          float second) const {
  float made = 0;
  loadFloats(kept, scale, 1, &made);
  return format.second ? made * second : made;
}

uint8_t WeightRules::zeroPoint(WeightRange range, float factor) const {
  if (factor == 0)
    return 0;
  return uint8_t(
      std::clamp(std::nearbyint(-range.least / factor), 0.0f, largestCode()));
}

uint8_t WeightRules::code(float number, float factor, uint8_t zeroPoint) const {
  const bool ofTensor = format.groupRows == -1 && format.groupColumns == -1;
  // A tensor's numbers are multiplied by the inverse, as those of activations.
  const bool multiplied = ofTensor && !isInteger() &&
                          scaleStorage != Storage::UE8M0 && !format.second;
  const float inverse = 1 / factor;
  // What is so small that its scale became 0 is 0.
  float divided = factor == 0 ? 0 : number / factor;
  if (multiplied && inverse <= 3.0e38F)
    divided = number * inverse;
  if (!isInteger())
    return nearest(divided);
  const float whole = std::isnan(divided) ? 0 : std::nearbyint(divided);
  if (format.zeroPoint)
    return uint8_t(std::clamp(whole + float(zeroPoint), 0.0f, largestCode()));
  const auto code = int(std::clamp(whole, -largestCode(), largestCode()));
  return storage == Storage::I8 ? uint8_t(int8_t(code)) : uint8_t(code + 8);
}
