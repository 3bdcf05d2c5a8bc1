//===- sums.cuh - a thread's sums, promoted or not --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The sums of a worker: integers where it multiplies integers, exactly, and f32
// in what value(i) gives. An instruction whose own sums keep fewer bits than
// f32 has adds to partial sums; promote moves those, scaled, to f32 totals.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/types.cuh"

namespace moe::mma {

/// The type in which an engine sums products of such elements.
template <class Element> struct SumOf {
  using Type = float;
};
template <> struct SumOf<i8> {
  using Type = int;
};

template <int kSize, bool kPromoted, class Sum = float> struct Sums {
  Sum sums[kSize]; ///< what the instruction adds to

  __device__ __forceinline__ Sums() {
#pragma unroll
    for (int i = 0; i < kSize; ++i)
      sums[i] = 0;
  }
  __device__ __forceinline__ float value(int i) const { return float(sums[i]); }
  /// Multiplies what value(i) gives.
  __device__ __forceinline__ void scale(int i, float factor) {
    sums[i] *= factor;
  }
};

template <int kSize, class Sum> struct Sums<kSize, true, Sum> {
  Sum sums[kSize];
  float totals[kSize];

  __device__ __forceinline__ Sums() {
#pragma unroll
    for (int i = 0; i < kSize; ++i)
      sums[i] = 0, totals[i] = 0.0f;
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
      sums[i] = 0;
  }
  /// totals += sums * scale(i), for an engine that forgets the sums itself.
  template <class Scale> __device__ __forceinline__ void add(Scale scale) {
#pragma unroll
    for (int i = 0; i < kSize; ++i)
      totals[i] = fmaf(float(sums[i]), scale(i), totals[i]);
  }
};

} // namespace moe::mma
