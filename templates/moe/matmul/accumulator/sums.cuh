//===- sums.cuh - accumulators of one thread --------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A thread's accumulators, for all engines whose accumulators are in registers
// and whose warps work independently. Engines that multiply integers accumulate
// in int32, which is exact; all others accumulate in f32. value(i) always
// returns f32. Some MMA instructions accumulate with fewer bits than f32. With
// kPromoted, the MMA results in `sums` are partial accumulators, which
// promote() scales and adds to the f32 `totals`.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/types.cuh"

namespace moe::mma {

/// The type in which an engine accumulates products of `Element`.
template <class Element> struct SumOf {
  using Type = float;
};
template <> struct SumOf<i8> {
  using Type = int;
};

template <int kSize, bool kPromoted, class Sum = float> struct Sums {
  Sum sums[kSize]; ///< accumulators that MMA instructions add to

  __device__ __forceinline__ Sums() {
#pragma unroll
    for (int i = 0; i < kSize; ++i)
      sums[i] = 0;
  }
  __device__ __forceinline__ float value(int i) const { return float(sums[i]); }
  /// Multiplies value(i) by `factor`.
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
  /// Adds sums[i] * scale(i) to totals[i], then clears sums.
  template <class Scale> __device__ __forceinline__ void promote(Scale scale) {
    add(scale);
#pragma unroll
    for (int i = 0; i < kSize; ++i)
      sums[i] = 0;
  }
  /// Adds sums[i] * scale(i) to totals[i]. It does not clear `sums`, for
  /// engines whose next MMA overwrites them.
  template <class Scale> __device__ __forceinline__ void add(Scale scale) {
#pragma unroll
    for (int i = 0; i < kSize; ++i)
      totals[i] = fmaf(float(sums[i]), scale(i), totals[i]);
  }
};

} // namespace moe::mma
