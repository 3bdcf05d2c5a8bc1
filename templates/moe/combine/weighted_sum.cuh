//===- weighted_sum.cuh - adds a row to a token's sum -----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Adds the result row of one (token, expert) pair to a token's weighted sum.
// All kernels that combine use this function, so their results are bitwise
// equal.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/types.cuh"

namespace moe {

/// Adds scale * values to `sums` in f32. The values are the elements of
/// `vectors`; change(i, values) may modify the elements of vector i first.
template <class Partial, int kVectors, class Change>
__device__ __forceinline__ void addWeighted(float *sums,
                                            const Vector16 (&vectors)[kVectors],
                                            float scale, Change change) {
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    float values[kPerVector<Partial>];
    unpack<Partial>(vectors[i], values);
    change(i, values);
#pragma unroll
    for (int j = 0; j < kPerVector<Partial>; ++j)
      sums[i * kPerVector<Partial> + j] =
          fmaf(scale, values[j], sums[i * kPerVector<Partial> + j]);
  }
}

} // namespace moe
