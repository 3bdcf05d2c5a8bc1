//===- expert_norm.cuh - norm of an expert's row ----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#pragma once

namespace moe {

/// Returns the norm's gain for a column with norm weight `weight`.
__device__ __forceinline__ float normGain(float weight) {
  return 1.0f + weight;
}

/// Returns 1 / sqrt(mean square + epsilon) of a row. `squares`: sum of the
/// row's squares.
__device__ __forceinline__ float inverseRms(float squares, int columns,
                                            float epsilon) {
  return 1.0f / sqrtf(squares / float(columns) + epsilon);
}

} // namespace moe
