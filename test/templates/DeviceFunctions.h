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

// Names outside of the namespace moe.
using moe::max;
using moe::min;

#endif // MOEC_TEST_TEMPLATES_DEVICEFUNCTIONS_H
