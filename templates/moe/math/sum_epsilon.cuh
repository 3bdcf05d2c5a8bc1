//===- sum_epsilon.cuh - weights over a sum and a number --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Kernels include this file only for layers whose number is not SumEpsilon's.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/math/normalize.cuh"

namespace moe::routing {

__device__ __forceinline__ float overSumWith(float term, float sum,
                                             float epsilon) {
  return term / (sum + epsilon);
}

/// The score over the sum + Constants::kEpsilon.
template <class Constants> struct SumWith : Sum {
  static __device__ __forceinline__ float weight(float term, float sum) {
    return overSumWith(term, sum, Constants::kEpsilon);
  }
};

} // namespace moe::routing
