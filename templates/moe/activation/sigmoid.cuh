//===- sigmoid.cuh - 1 / (1 + exp(-x)) --------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Four instructions, since an epilogue computes one for each value: the
// exponential and the reciprocal are the approximate ones (2 and 1 ulp). With
// the rounding of the exponent the relative error is |x| * 2^-24 and a few ulp.
// Where exp(-x) leaves the range of f32 it is 0, the limit; NaN stays NaN.
//
//===----------------------------------------------------------------------===//

#pragma once

namespace moe::activation {

__device__ __forceinline__ float sigmoid(float x) {
  float power, result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x * -1.44269504f));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(1.0f + power));
  return result;
}

} // namespace moe::activation
