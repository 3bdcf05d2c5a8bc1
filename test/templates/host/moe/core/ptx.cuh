//===- ptx.cuh - what the templates' conversions ask of a GPU ---*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// In place of the instructions, for unit tests that run types and policies of
// the templates on the host.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "runtime/host/Element.h"
#include "test/templates/DeviceFunctions.h"

#include <cstring>

namespace moe::ptx {

inline float floatFromHalf(unsigned short bits) {
  return moec::host::fromF16(bits);
}
inline unsigned short halfFromFloat(float value) {
  return moec::host::toF16(value);
}
inline unsigned short bfloatFromFloat(float value) {
  return moec::host::toBf16(value);
}
inline unsigned bfloatPair(float low, float high) {
  return bfloatFromFloat(low) | unsigned(bfloatFromFloat(high)) << 16;
}
inline unsigned halfPair(float low, float high) {
  return halfFromFloat(low) | unsigned(halfFromFloat(high)) << 16;
}
inline unsigned e4m3Pair(float low, float high) {
  return moec::host::toE4m3(low) | unsigned(moec::host::toE4m3(high)) << 8;
}
inline unsigned halvesFromE4m3(unsigned codes) {
  return halfPair(moec::host::fromE4m3(uint8_t(codes)),
                  moec::host::fromE4m3(uint8_t(codes >> 8)));
}
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
