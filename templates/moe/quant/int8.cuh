//===- int8.cuh - operands of 8-bit integers --------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Quantization policies of the int8 schemes. Integer accumulation is exact over
// all of k, so accumulators are not promoted to f32 totals. Scales multiply the
// final accumulators.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/quant/none.cuh"

namespace moe::quant {

/// Policy of int8_tensor and int8_tensor_dynamic.
struct Int8Tensor {
  static constexpr LhsScale kLhsScale = LhsScale::Tensor;
  static constexpr RhsScale kRhsScale = RhsScale::Tensor;
  static constexpr int kPromoteK = 0;
};

/// Policy of int8_channel_static and others: one scale for all activations, and
/// one scale per weight row.
struct Int8TensorChannel {
  static constexpr LhsScale kLhsScale = LhsScale::Tensor;
  static constexpr RhsScale kRhsScale = RhsScale::Channel;
  static constexpr int kPromoteK = 0;
};

/// Policy of int8_channel: one scale per token and one scale per weight row.
struct Int8Channel {
  static constexpr LhsScale kLhsScale = LhsScale::Token;
  static constexpr RhsScale kRhsScale = RhsScale::Channel;
  static constexpr int kPromoteK = 0;
};

} // namespace moe::quant
