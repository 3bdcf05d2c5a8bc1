//===- sum_epsilon.cuh - weights over sum plus epsilon ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Only kernels of layers whose epsilon differs from 1e-20, the epsilon of
// SumEpsilon (moe/math/normalize.cuh), include this file.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/math/normalize.cuh"

namespace moe::routing {

__device__ __forceinline__ float overSumWith(float term, float sum,
                                             float epsilon) {
  return term / (sum + epsilon);
}

/// The score divided by (sum + Constants::kEpsilon).
template <class Constants> struct SumWith : Sum {
  static __device__ __forceinline__ float weight(float term, float sum) {
    return overSumWith(term, sum, Constants::kEpsilon);
  }
};

} // namespace moe::routing
