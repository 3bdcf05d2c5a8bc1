//===- instructions.cuh - instructions for single values --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Conversions and approximations of single values with inline PTX, or with
// integer arithmetic if an older arch lacks the instruction. moe/math/host.h
// has the same functions for a host.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/math/e4m3.cuh"

namespace moe::ptx {

/// Rounds to nearest even with integer arithmetic. Correct on every arch.
__device__ __forceinline__ unsigned short bfloatByInteger(float value) {
  unsigned bits = __float_as_uint(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return 0x7fff;
  return (unsigned short)((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16);
}

#ifdef __CUDA_ARCH__

__device__ __forceinline__ float floatFromHalf(unsigned short bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}

__device__ __forceinline__ unsigned short halfFromFloat(float value) {
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

__device__ __forceinline__ unsigned short bfloatFromFloat(float value) {
#if __CUDA_ARCH__ >= 800
  unsigned pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(0.0f), "f"(value));
  return (unsigned short)(pair & 0xffff);
#else
  return bfloatByInteger(value);
#endif
}

__device__ __forceinline__ unsigned bfloatPair(float low, float high) {
#if __CUDA_ARCH__ >= 800
  unsigned pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return unsigned(bfloatByInteger(low)) | unsigned(bfloatByInteger(high)) << 16;
#endif
}

__device__ __forceinline__ unsigned halfPair(float low, float high) {
#if __CUDA_ARCH__ >= 800
  unsigned pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return unsigned(halfFromFloat(low)) | unsigned(halfFromFloat(high)) << 16;
#endif
}

/// Converts two e4m3 codes to f16, exactly; the first is in the lower half.
__device__ __forceinline__ unsigned halvesFromE4m3(unsigned codes) {
#if __CUDA_ARCH__ >= 890
  unsigned pair;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"((unsigned short)codes));
  return pair;
#else
  unsigned scaled = detail::scaledHalves(codes), pair;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(pair) : "r"(scaled), "r"(0x5c005c00u));
  return pair | detail::halvesNan(scaled);
#endif
}

/// Rounds to nearest even and saturates to +-448; the first is in the lower
/// byte.
__device__ __forceinline__ unsigned e4m3Pair(float low, float high) {
#if __CUDA_ARCH__ >= 890
  unsigned short pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;"
      : "=h"(pair)
      : "f"(high), "f"(low));
  return pair;
#else
  return unsigned(detail::e4m3ByInteger(low)) |
         unsigned(detail::e4m3ByInteger(high)) << 8;
#endif
}

/// Return 2^x and 1 / x, with errors of 2 and 1 ulp. Subnormal values are
/// flushed to 0.
__device__ __forceinline__ float exp2Approximate(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}
__device__ __forceinline__ float reciprocalApproximate(float x) {
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(x));
  return inverse;
}

#endif

} // namespace moe::ptx
