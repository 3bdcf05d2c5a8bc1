//===- DeviceFunctions.h - CUDA's functions on the host ---------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What NVRTC provides and the templates' conversions need, so that unit tests
// run these on the host for every code. Included before them.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_TEMPLATES_DEVICEFUNCTIONS_H
#define MOEC_TEST_TEMPLATES_DEVICEFUNCTIONS_H

#include "test/templates/Warps.h"

#include <algorithm>
#include <bit>
#include <climits>
#include <cmath>
#include <cstdint>

#define __device__
#define __forceinline__ inline

/// Of the CTA whose turn it is.
inline warps::Index blockIdx;
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

inline float __uint_as_float(unsigned bits) {
  return std::bit_cast<float>(bits);
}
inline unsigned __float_as_uint(float value) {
  return std::bit_cast<unsigned>(value);
}
/// Bytes of both words by the four selectors, whose sign bits are not used.
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selectors) {
  const uint64_t bytes = uint64_t(high) << 32 | low;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i)
    result |= unsigned(bytes >> (selectors >> 4 * i & 7) * 8 & 0xff) << 8 * i;
  return result;
}

/// IEEE's, to nearest even.
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fmul_rn(float a, float b) { return a * b; }
/// Saturated; a NaN becomes 0.
inline int __float2int_rn(float value) {
  if (std::isnan(value))
    return 0;
  if (std::fabs(value) >= 0x1p31f)
    return value < 0 ? INT_MIN : INT_MAX;
  return int(std::nearbyint(value));
}
using std::max;
using std::min;

#endif // MOEC_TEST_TEMPLATES_DEVICEFUNCTIONS_H
