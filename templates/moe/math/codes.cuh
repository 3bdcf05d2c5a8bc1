//===- codes.cuh - element types of 8 and fewer bits ------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Element types of weights that an engine multiplies only as bf16 or f16, and
// of scales. Codes (quantized values) of 4 and 6 bits are packed without gaps,
// the first in the lowest bits. A pointer to them counts bytes.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/math/code_bytes.cuh"
#include "moe/math/small_floats.cuh"
#include "moe/math/types.cuh"

namespace moe {

/// 8-bit float: 1 sign, 5 exponent and 2 mantissa bits (f8E5M2).
struct e5m2 {
  unsigned char bits;
};
/// 6-bit floats without infinity and NaN (f6E3M2FN, f6E2M3FN).
struct e3m2 {
  unsigned char bits;
};
struct e2m3 {
  unsigned char bits;
};
/// 4-bit float; the largest value is 6 (f4E2M1FN).
struct e2m1 {
  unsigned char bits;
};
/// Two codes of e2m1, the first in the lower half. This is the element type of
/// engines that multiply e2m1 directly.
struct e2m1x2 {
  unsigned char bits;
};
/// A power of two, 2^(bits - 127); 255 is NaN (f8E8M0FNU).
struct ue8m0 {
  unsigned char bits;
};
/// 4-bit integer, 0 to 15, minus a zero point; the zero point is 8 if none is
/// stored.
struct i4 {
  unsigned char bits;
};

template <class T> inline constexpr int kBits = 8 * int(sizeof(T));
template <> inline constexpr int kBits<e3m2> = 6;
template <> inline constexpr int kBits<e2m3> = 6;
template <> inline constexpr int kBits<e2m1> = 4;
template <> inline constexpr int kBits<i4> = 4;

/// Number of logical elements in one stored element.
template <class T> inline constexpr int kNumbers = 1;
template <> inline constexpr int kNumbers<e2m1x2> = 2;

/// The zero point of codes if none is stored.
template <class T> inline constexpr float kZero = 0.0f;
template <> inline constexpr float kZero<i4> = 8.0f;

/// Returns the value of the code in the lowest bits of `code`. Higher bits are
/// ignored.
template <class T> __device__ __forceinline__ float decode(unsigned code);

template <> __device__ __forceinline__ float decode<e4m3>(unsigned code) {
  return toFloat(e4m3{(unsigned char)code});
}
// An e5m2 is the upper half of an f16.
template <> __device__ __forceinline__ float decode<e5m2>(unsigned code) {
  return ptx::floatFromHalf((unsigned short)((code & 0xffu) << 8));
}
template <> __device__ __forceinline__ float decode<e3m2>(unsigned code) {
  return detail::smallFloat<3, 2>(code);
}
template <> __device__ __forceinline__ float decode<e2m3>(unsigned code) {
  return detail::smallFloat<2, 3>(code);
}
template <> __device__ __forceinline__ float decode<e2m1>(unsigned code) {
  return detail::smallFloat<2, 1>(code);
}
template <> __device__ __forceinline__ float decode<i8>(unsigned code) {
  return float((signed char)code);
}
template <> __device__ __forceinline__ float decode<i4>(unsigned code) {
  return float(code & 15u);
}

__device__ __forceinline__ float toFloat(ue8m0 value) {
  return detail::powerOfTwo(value.bits);
}

/// Returns the code of a value that T represents exactly, in the lowest bits. T
/// has 4 or 6 bits.
template <class T> __device__ __forceinline__ unsigned codeOf(float value) {
  constexpr int kMantissa = kSame<T, e2m1> ? 1 : kSame<T, e3m2> ? 2 : 3;
  constexpr int kSign = kBits<T> - 1;
  static_assert(kSame<T, e2m1> || kSame<T, e3m2> || kSame<T, e2m3>);
  unsigned bits = __float_as_uint(value);
  float size = __uint_as_float(bits & 0x7fffffffu);
  // The inverse of smallFloat. After the multiplication, f32 and T have the
  // same exponent bits.
  constexpr float kFactor = kSame<T, e3m2> ? 0x1p-124f : 0x1p-126f;
  unsigned code = __float_as_uint(__fmul_rn(size, kFactor)) >> (23 - kMantissa);
  return (code & ((1u << kSign) - 1)) | (bits >> 31) << kSign;
}

/// Returns the code of a power of two from 2^-127 on. A NaN stays NaN.
template <> __device__ __forceinline__ ue8m0 fromFloat<ue8m0>(float value) {
  return {(unsigned char)(__float_as_uint(value) >> 23)};
}

/// Converts four i4 codes to the exact 8-bit integers or floats code - 8.
template <class T> __device__ __forceinline__ unsigned bytesOf4(unsigned codes);
template <> __device__ __forceinline__ unsigned bytesOf4<i8>(unsigned codes) {
  return detail::integersOf4(codes);
}
template <> __device__ __forceinline__ unsigned bytesOf4<e4m3>(unsigned codes) {
  return detail::floatsOf4(codes);
}

/// Returns the value of code i of 8 codes, which are packed in two words.
template <class T>
__device__ __forceinline__ float decode8th(const unsigned (&words)[2], int i) {
  int bit = i * kBits<T>;
  unsigned code = words[bit / 32] >> bit % 32;
  if (bit % 32 + kBits<T> > 32)
    code |= words[1] << (32 - bit % 32);
  return decode<T>(code);
}

} // namespace moe
