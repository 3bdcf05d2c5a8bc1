//===- DeviceFunctions.h - CUDA's functions on the host ---------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The functions of NVRTC that templates outside of math/ need, so that unit
// tests run these on the host. Included before them.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_TEMPLATES_DEVICEFUNCTIONS_H
#define MOEC_TEST_TEMPLATES_DEVICEFUNCTIONS_H

#include "templates/moe/math/host.h"
#include "test/templates/Warps.h"

#include <bit>

#define __device__
#define __forceinline__ inline

/// The index of the CTA whose turn it is.
inline warps::Index blockIdx;
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline int __popc(unsigned bits) { return std::popcount(bits); }
/// 1 + the lowest bit that is set, or 0.
inline int __ffs(int bits) {
  return bits ? 1 + std::countr_zero(unsigned(bits)) : 0;
}

// Names outside of the namespace moe.
using moe::max;
using moe::min;

#endif // MOEC_TEST_TEMPLATES_DEVICEFUNCTIONS_H
