//===- keys.cuh - keys that compare as integers -----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Selection compares unsigned integer keys. A key preserves the order of the
// logits, or of the scores plus a bias. NaN has the key of -inf, and -0 the key
// of +0.
//
//===----------------------------------------------------------------------===//

#pragma once

namespace moe::routing {

/// Returns the order-preserving key of a logit. The key is never 0.
__device__ __forceinline__ unsigned keyOfLogit(float logit) {
  if (!(logit == logit))
    logit = __uint_as_float(0xff800000u);
  unsigned bits = __float_as_uint(logit + 0.0f);
  return bits ^ (bits >> 31 ? 0xffffffffu : 0x80000000u);
}

/// Returns the logit of a key; -inf for the key of a NaN.
__device__ __forceinline__ float logitOfKey(unsigned key) {
  return __uint_as_float(key ^ (key >> 31 ? 0x80000000u : 0xffffffffu));
}

/// Returns the key of a 16-bit float, less than 65536. `infinity`: bits of the
/// type's positive infinity.
__device__ __forceinline__ unsigned keyOfHalf(unsigned bits,
                                              unsigned infinity) {
  if ((bits & 0x7fffu) > infinity)
    bits = 0x8000u | infinity;
  if (bits == 0x8000u)
    bits = 0;
  return bits & 0x8000u ? bits ^ 0xffffu : bits | 0x8000u;
}

__device__ __forceinline__ unsigned halfOfKey(unsigned key) {
  return key & 0x8000u ? key & 0x7fffu : key ^ 0xffffu;
}

} // namespace moe::routing
