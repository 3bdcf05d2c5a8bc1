//===- int8.cuh - operands that are integers of 8 bits ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Quantization policies of the int8 schemes. Sums of integers are exact over
// all of k, so nothing is promoted: scales multiply the finished ones.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/quant/none.cuh"

namespace moe::quant {

/// int8_tensor and int8_tensor_dynamic.
struct Int8Tensor {
  static constexpr LhsScale kLhsScale = LhsScale::Tensor;
  static constexpr RhsScale kRhsScale = RhsScale::Tensor;
  static constexpr int kPromoteK = 0;
};

/// int8_channel_static and others: one scale of the activations, one a weight
/// row.
struct Int8TensorChannel {
  static constexpr LhsScale kLhsScale = LhsScale::Tensor;
  static constexpr RhsScale kRhsScale = RhsScale::Channel;
  static constexpr int kPromoteK = 0;
};

/// int8_channel: a scale a token and one a weight row.
struct Int8Channel {
  static constexpr LhsScale kLhsScale = LhsScale::Token;
  static constexpr RhsScale kRhsScale = RhsScale::Channel;
  static constexpr int kPromoteK = 0;
};

} // namespace moe::quant
