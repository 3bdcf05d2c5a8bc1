//===- none.cuh - operands that are stored as they are ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The quantization policy of the schemes f32, f16 and bf16: no scale, no
// second level, no zero point. Sums are values.
//
//===----------------------------------------------------------------------===//

#pragma once

namespace moe::quant {

struct None {
  static constexpr bool kScaled = false;
  /// The value that a finished sum stands for.
  static __device__ __forceinline__ float dequantize(float sum) { return sum; }
};

} // namespace moe::quant
