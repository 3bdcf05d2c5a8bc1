//===- sums.cuh - a thread's sums, promoted or not --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The sums of a worker. An instruction whose own sums keep fewer bits than f32
// has adds to partial sums; promote moves those, scaled, to f32 totals.
//
//===----------------------------------------------------------------------===//

#pragma once

namespace moe::mma {

template <int kSize, bool kPromoted> struct Sums {
  float sums[kSize]; ///< what the instruction adds to

  __device__ __forceinline__ Sums() {
#pragma unroll
    for (int i = 0; i < kSize; ++i)
      sums[i] = 0.0f;
  }
  __device__ __forceinline__ float value(int i) const { return sums[i]; }
  /// Multiplies what value(i) gives.
  __device__ __forceinline__ void scale(int i, float factor) {
    sums[i] *= factor;
  }
};

template <int kSize> struct Sums<kSize, true> {
  float sums[kSize];
  float totals[kSize];

  __device__ __forceinline__ Sums() {
#pragma unroll
    for (int i = 0; i < kSize; ++i)
      sums[i] = totals[i] = 0.0f;
  }
  __device__ __forceinline__ float value(int i) const { return totals[i]; }
  __device__ __forceinline__ void scale(int i, float factor) {
    totals[i] *= factor;
  }
  /// totals += sums * scale(i); sums = 0.
  template <class Scale> __device__ __forceinline__ void promote(Scale scale) {
    add(scale);
#pragma unroll
    for (int i = 0; i < kSize; ++i)
      sums[i] = 0.0f;
  }
  /// totals += sums * scale(i), for an engine that forgets the sums itself.
  template <class Scale> __device__ __forceinline__ void add(Scale scale) {
#pragma unroll
    for (int i = 0; i < kSize; ++i)
      totals[i] = fmaf(sums[i], scale(i), totals[i]);
  }
};

} // namespace moe::mma
