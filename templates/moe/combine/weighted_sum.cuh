//===- weighted_sum.cuh - a row of an expert into a token's sum -*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The addition of one pair's partial sums, for every kernel that combines, so
// that all of them give the same bits.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/types.cuh"

namespace moe {

/// sums += scale * (what `vectors` hold, after `change` of the values of vector
/// i), in f32.
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
