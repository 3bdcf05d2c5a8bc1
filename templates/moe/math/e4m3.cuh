//===- e4m3.cuh - e4m3 by integer arithmetic --------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// e4m3 (f8E4M3FN): a sign, 4 bits of exponent (bias 7), 3 bits of mantissa. It
// has no infinity, NaN is 0x7f or 0xff, and the largest value is 448. These
// conversions need no instruction that an arch may lack.
// moe/math/instructions.cuh calls them on such archs.
//
//===----------------------------------------------------------------------===//

#pragma once

namespace moe::detail {

/// Rounds to nearest even and saturates to +-448. A NaN becomes 0x7f.
__device__ __forceinline__ unsigned char e4m3ByInteger(float value) {
  constexpr unsigned kLargest = 0x43e00000u;  // 448
  constexpr unsigned kSmallest = 0x3c800000u; // 2^-6, the smallest normal
  unsigned bits = __float_as_uint(value);
  unsigned sign = bits >> 24 & 0x80u, size = bits & 0x7fffffffu;
  if (size > 0x7f800000u)
    return 0x7f;
  if (size >= kLargest)
    return (unsigned char)(sign | 0x7eu);
  if (size < kSmallest) {
    // The last bit of 2^14 + x has weight 2^-9, like a subnormal's last bit.
    float sum = __uint_as_float(size) + 16384.0f;
    return (unsigned char)(sign | (__float_as_uint(sum) - 0x46800000u));
  }
  unsigned rounded = size + 0x7ffffu + (size >> 20 & 1u);
  return (unsigned char)(sign | ((rounded >> 20) - (120u << 3)));
}

/// Converts two codes (the first in the lower byte) to two f16 that are the
/// values times 2^-8. A NaN becomes 1.875. Multiplied by 2^8 and ORed with
/// halvesNan, the results are exact.
__device__ __forceinline__ unsigned scaledHalves(unsigned codes) {
  unsigned spread = (codes & 0xffu) | (codes & 0xff00u) << 8;
  return (spread & 0x00800080u) << 8 | (spread & 0x007f007fu) << 7;
}

/// Returns 0x7e00 in each half that holds a converted NaN, and 0 otherwise.
__device__ __forceinline__ unsigned halvesNan(unsigned scaled) {
  return (((scaled & 0x7fff7fffu) + 0x00800080u) >> 14 & 0x00010001u) * 0x7e00u;
}

} // namespace moe::detail
