//===- weight_only.cuh - weights of few bits, activations of 16 -*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The quantization policy of the schemes whose weights alone are quantized:
// codes become numbers of the engine's type, rounded once, before they are
// multiplied (dequantize.cuh). Which codes, scales and zero points there are is
// said by members of the Config.
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
