//===- types.cuh - element types and conversions ----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Element types of 16 and 8 bits as plain storage, and the conversions to and
// from f32 (round to nearest even).
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/math/instructions.cuh"

namespace moe {

/// bfloat16: the upper half of an f32.
struct bf16 {
  unsigned short bits;
};

/// IEEE binary16.
struct f16 {
  unsigned short bits;
};

/// 8-bit float: 1 sign, 4 exponent and 3 mantissa bits (f8E4M3FN).
struct e4m3 {
  unsigned char bits;
};

/// 8-bit integer, two's complement.
struct i8 {
  signed char bits;
};

template <class A, class B> inline constexpr bool kSame = false;
template <class A> inline constexpr bool kSame<A, A> = true;

__device__ __forceinline__ float toFloat(float value) { return value; }
__device__ __forceinline__ float toFloat(bf16 value) {
  return __uint_as_float(unsigned(value.bits) << 16);
}
__device__ __forceinline__ float toFloat(f16 value) {
  return ptx::floatFromHalf(value.bits);
}
__device__ __forceinline__ float toFloat(e4m3 value) {
  return ptx::floatFromHalf(
      (unsigned short)(ptx::halvesFromE4m3(value.bits) & 0xffffu));
}

/// Rounds to nearest even. A NaN stays NaN. An overflow becomes infinite, or
/// the largest value for e4m3, which has no infinity.
template <class T> __device__ __forceinline__ T fromFloat(float value);
template <> __device__ __forceinline__ float fromFloat<float>(float value) {
  return value;
}
template <> __device__ __forceinline__ bf16 fromFloat<bf16>(float value) {
  return {ptx::bfloatFromFloat(value)};
}
template <> __device__ __forceinline__ f16 fromFloat<f16>(float value) {
  return {ptx::halfFromFloat(value)};
}

template <> __device__ __forceinline__ e4m3 fromFloat<e4m3>(float value) {
  return {(unsigned char)ptx::e4m3Pair(value, 0.0f)};
}

/// Rounds to an integer and saturates to +-127. A NaN becomes 0.
template <> __device__ __forceinline__ i8 fromFloat<i8>(float value) {
  return {(signed char)max(-127, min(127, __float2int_rn(value)))};
}

} // namespace moe
