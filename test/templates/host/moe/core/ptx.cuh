//===- ptx.cuh - what kernels ask of a GPU ------------------------*- C++
//-*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// In place of the instructions, for unit tests that run parts of kernels on the
// host.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "test/templates/DeviceFunctions.h"

#include <cstring>

namespace moe::ptx {

inline void waitForPredecessor() {}
inline void launchDependents() {}
template <class T> T loadFresh(const T *pointer) { return *pointer; }
inline float warpMaximum(float value) {
  for (int distance = 16; distance > 0; distance /= 2)
    value = std::fmax(value, __shfl_xor_sync(0xffffffffu, value, distance));
  return value;
}
inline void loadShared(unsigned address, unsigned (&words)[4]) {
  std::memcpy(words, warps::sharedMemory + address, sizeof words);
}

} // namespace moe::ptx
