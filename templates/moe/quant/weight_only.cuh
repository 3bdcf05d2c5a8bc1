//===- weight_only.cuh - quantized weights, 16-bit activations --*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The quantization policy of weight-only schemes. The kernel converts codes
// (quantized values) to the engine's element type before the multiplication and
// rounds once (moe/quant/dequantize.cuh). Members of the Config specify the
// codes, scales and zero points.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/quant/none.cuh"

namespace moe::quant {

struct WeightOnly {
  static constexpr LhsScale kLhsScale = LhsScale::None;
  static constexpr RhsScale kRhsScale = RhsScale::None;
  static constexpr int kPromoteK = 0;
  static constexpr bool kDequantizes = true;
};

} // namespace moe::quant
