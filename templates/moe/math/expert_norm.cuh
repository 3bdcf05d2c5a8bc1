//===- expert_norm.cuh - the norm of an expert's row ------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#pragma once

namespace moe {

/// The factor that a column has before the norm.
__device__ __forceinline__ float normGain(float weight) {
  return 1.0f + weight;
}

/// The inverse of the root of the mean square, + epsilon, of a row whose
/// squares have this sum.
__device__ __forceinline__ float inverseRms(float squares, int columns,
                                            float epsilon) {
  return 1.0f / sqrtf(squares / float(columns) + epsilon);
}

} // namespace moe
