//===- fp8.cuh - e4m3 operands with f32 scales ------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Quantization policies of the fp8 schemes. The tensor core accumulates with
// fewer bits than f32, so partial accumulators are added to f32 totals after
// every 128 elements of k. Schemes with one scale per 128 elements of k apply
// it to the partial accumulators.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/quant/none.cuh"

namespace moe::quant {

/// Policy of fp8_tensor and fp8_tensor_dynamic.
struct Fp8Tensor {
  static constexpr LhsScale kLhsScale = LhsScale::Tensor;
  static constexpr RhsScale kRhsScale = RhsScale::Tensor;
  static constexpr int kPromoteK = 128;
};

/// Policy of fp8_channel_static and others: one scale for all activations, and
/// one scale per weight row.
struct Fp8TensorChannel {
  static constexpr LhsScale kLhsScale = LhsScale::Tensor;
  static constexpr RhsScale kRhsScale = RhsScale::Channel;
  static constexpr int kPromoteK = 128;
};

/// Policy of fp8_channel: one scale per token and one scale per weight row.
struct Fp8Channel {
  static constexpr LhsScale kLhsScale = LhsScale::Token;
  static constexpr RhsScale kRhsScale = RhsScale::Channel;
  static constexpr int kPromoteK = 128;
};

/// Policy of fp8_block and fp8_block_ue8m0: one scale per 128 elements of a
/// token, and one scale per 128 x 128 block of a weight.
struct Fp8Block {
  static constexpr LhsScale kLhsScale = LhsScale::Group128;
  static constexpr RhsScale kRhsScale = RhsScale::Block128;
  static constexpr int kPromoteK = 128;
};

} // namespace moe::quant
