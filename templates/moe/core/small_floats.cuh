//===- small_floats.cuh - floats of few bits as f32 -------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Exact, by integer arithmetic and one multiply. The formats without
// infinities and NaNs (f6E3M2FN, f6E2M3FN, f4E2M1FN), and powers of two
// (f8E8M0FNU).
//
//===----------------------------------------------------------------------===//

#pragma once

namespace moe::detail {

/// A sign above kExponentBits above kMantissaBits. In the place of those of an
/// f32 they make a number that is too small by the difference of the biases,
/// also where it is subnormal. Bits above the sign are ignored.
template <int kExponentBits, int kMantissaBits>
__device__ __forceinline__ float smallFloat(unsigned code) {
  constexpr int kBits = kExponentBits + kMantissaBits;
  constexpr unsigned kBias = (1u << (kExponentBits - 1)) - 1;
  unsigned size = code & ((1u << kBits) - 1);
  unsigned sign = code >> kBits & 1u;
  float scale = __uint_as_float((127 + 127 - kBias) << 23);
  return __uint_as_float(sign << 31 | size << (23 - kMantissaBits)) * scale;
}

/// 2^(code - 127); 255 is NaN, and 2^-127 a subnormal number.
__device__ __forceinline__ float powerOfTwo(unsigned code) {
  return __uint_as_float(code == 0     ? 0x00400000u
                         : code == 255 ? 0x7fc00000u
                                       : code << 23);
}

} // namespace moe::detail
