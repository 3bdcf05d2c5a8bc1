//===- host.h - kernel arithmetic on a host ---------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All files of this folder as plain C++20, for the host. This file first
// defines the functions that NVRTC provides, and plain C++ forms of
// moe/math/instructions.cuh. Approximate instructions are exact here. No kernel
// includes this file.
//
//===----------------------------------------------------------------------===//

#pragma once

#include <algorithm>
#include <bit>
#include <climits>
#include <cmath>
#include <cstdint>

#define __device__
#define __forceinline__ inline

namespace moe {

using std::max;
using std::min;

inline float __uint_as_float(unsigned bits) {
  return std::bit_cast<float>(bits);
}
inline unsigned __float_as_uint(float value) {
  return std::bit_cast<unsigned>(value);
}

/// If one operand is NaN, these functions return the other operand. They are
/// defined here because the C library's versions are function calls.
inline float fmaxf(float a, float b) { return a > b || b != b ? a : b; }
inline float fminf(float a, float b) { return a < b || b != b ? a : b; }

/// IEEE operations, rounded to nearest even.
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
/// Rounds to nearest even and saturates. A NaN becomes 0.
inline int __float2int_rn(float value) {
  if (value != value)
    return 0;
  if (std::fabs(value) >= 0x1p31f)
    return value < 0 ? INT_MIN : INT_MAX;
  return int(std::nearbyint(value));
}

/// Selects bytes of both words by four selectors. The sign bits of the
/// selectors are not used.
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selectors) {
  const uint64_t bytes = uint64_t(high) << 32 | low;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i)
    result |= unsigned(bytes >> (selectors >> 4 * i & 7) * 8 & 0xff) << 8 * i;
  return result;
}

inline int __popc(unsigned bits) { return std::popcount(bits); }

} // namespace moe

#include "moe/math/instructions.cuh"

namespace moe::ptx {

inline float floatFromHalf(unsigned short bits) {
  const unsigned sign = (bits & 0x8000u) << 16;
  const unsigned exponent = bits >> 10 & 31, mantissa = bits & 0x3ffu;
  if (exponent == 31)
    return __uint_as_float(mantissa ? 0x7fffffffu : sign | 0x7f800000u);
  // Exponent and mantissa bits, shifted to their positions in an f32, are a
  // value that is too small by 2^112, because the exponent biases differ by
  // 112. This also holds for subnormal values.
  return __uint_as_float(sign | (bits & 0x7fffu) << 13) * 0x1p112f;
}

inline unsigned short halfFromFloat(float value) {
  const unsigned bits = __float_as_uint(value), size = bits & 0x7fffffffu;
  const unsigned sign = bits >> 16 & 0x8000u;
  if (size > 0x7f800000u)
    return 0x7fff;
  if (size >= 0x47800000u) // 2^16: infinity even without rounding
    return (unsigned short)(sign | 0x7c00u);
  if (size < 0x38800000u) {
    // For values below 2^-14, the last bit of 0.5 + x has the same weight as
    // the last bit of the result.
    const float sum = __uint_as_float(size) + 0.5f;
    return (unsigned short)(sign | (__float_as_uint(sum) - 0x3f000000u));
  }
  // A carry into the exponent may yield infinity, which is the correct result.
  const unsigned rounded = size + 0xfffu + (size >> 13 & 1u);
  return (unsigned short)(sign | ((rounded >> 13) - (112u << 10)));
}

inline unsigned short bfloatFromFloat(float value) {
  return bfloatByInteger(value);
}
inline unsigned bfloatPair(float low, float high) {
  return bfloatByInteger(low) | unsigned(bfloatByInteger(high)) << 16;
}
inline unsigned halfPair(float low, float high) {
  return halfFromFloat(low) | unsigned(halfFromFloat(high)) << 16;
}
inline unsigned halvesFromE4m3(unsigned codes) {
  const unsigned scaled = detail::scaledHalves(codes);
  return halfPair(floatFromHalf((unsigned short)scaled) * 256.0f,
                  floatFromHalf((unsigned short)(scaled >> 16)) * 256.0f) |
         detail::halvesNan(scaled);
}
inline unsigned e4m3Pair(float low, float high) {
  return detail::e4m3ByInteger(low) | unsigned(detail::e4m3ByInteger(high))
                                          << 8;
}
inline float exp2Approximate(float x) { return std::exp2(x); }
inline float reciprocalApproximate(float x) { return 1.0f / x; }

} // namespace moe::ptx

#include "moe/math/activation.cuh"
#include "moe/math/clamped_relu2.cuh"
#include "moe/math/codes.cuh"
#include "moe/math/emulated.cuh"
#include "moe/math/expert_norm.cuh"
#include "moe/math/keys.cuh"
#include "moe/math/log_sigmoid.cuh"
#include "moe/math/logit_scale.cuh"
#include "moe/math/normalize.cuh"
#include "moe/math/owners.cuh"
#include "moe/math/powlu.cuh"
#include "moe/math/relu.cuh"
#include "moe/math/scale_atoms.cuh"
#include "moe/math/scaling.cuh"
#include "moe/math/score.cuh"
#include "moe/math/slabs.cuh"
#include "moe/math/softcap.cuh"
#include "moe/math/sum_epsilon.cuh"
#include "moe/math/weight_scaling.cuh"

#undef __device__
#undef __forceinline__
