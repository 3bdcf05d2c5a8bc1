//===- small_floats.cuh - floats of few bits as f32 -------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Exact conversions with integer arithmetic and one multiplication, for formats
// without infinities and NaNs (f6E3M2FN, f6E2M3FN, f4E2M1FN) and for powers of
// two (f8E8M0FNU). Also the rounding of an f32 to a format of few bits, as f32.
//
//===----------------------------------------------------------------------===//

#pragma once

namespace moe::detail {

/// Returns the value of a code, which consists of a sign, kExponentBits and
/// kMantissaBits, from the highest bit down. Exponent and mantissa bits are
/// shifted to their positions in an f32. The resulting f32 is too small by a
/// power of two, because the exponent biases differ; a multiplication corrects
/// this, also for subnormal values. Bits above the sign are ignored.
template <int kExponentBits, int kMantissaBits>
__device__ __forceinline__ float smallFloat(unsigned code) {
  constexpr int kBits = kExponentBits + kMantissaBits;
  constexpr unsigned kBias = (1u << (kExponentBits - 1)) - 1;
  unsigned size = code & ((1u << kBits) - 1);
  unsigned sign = code >> kBits & 1u;
  float scale = __uint_as_float((127 + 127 - kBias) << 23);
  return __uint_as_float(sign << 31 | size << (23 - kMantissaBits)) * scale;
}

/// Returns 2^(code - 127). 255 is NaN, and 2^-127 a subnormal value.
__device__ __forceinline__ float powerOfTwo(unsigned code) {
  return __uint_as_float(code == 0     ? 0x00400000u
                         : code == 255 ? 0x7fc00000u
                                       : code << 23);
}

/// Returns the smallest power of two of f8E8M0FNU that is not less than
/// `value`, which is normal and positive.
__device__ __forceinline__ float raisedToPower(float value) {
  unsigned bits = (__float_as_uint(value) + 0x7fffffu) & 0x7f800000u;
  return __uint_as_float(bits < 0x7f000000u ? bits : 0x7f000000u);
}

/// Returns the nearest value of a format, ties to even, saturated to +-largest.
/// A NaN stays NaN.
template <int kExponentBits, int kMantissaBits>
__device__ __forceinline__ float nearestSmallFloat(float value, float largest) {
  // The exponent of the smallest normal value. Subnormal values have the same
  // one.
  constexpr unsigned kLeast = 127 + 2 - (1u << (kExponentBits - 1));
  unsigned bits = __float_as_uint(value);
  unsigned size = bits & 0x7fffffffu;
  if (size > 0x7f800000u)
    return value;
  float magnitude = __uint_as_float(size);
  magnitude = magnitude < largest ? magnitude : largest;
  unsigned exponent = __float_as_uint(magnitude) >> 23;
  exponent = exponent > kLeast ? exponent : kLeast;
  // The last bit of a sum with this value is the last bit of the format.
  float shift = __uint_as_float((exponent + 23 - kMantissaBits) << 23);
  magnitude = (magnitude + shift) - shift;
  return __uint_as_float(__float_as_uint(magnitude) | (bits & 0x80000000u));
}

} // namespace moe::detail
