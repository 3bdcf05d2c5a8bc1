//===- fp8.cuh - e4m3 operands with f32 scales ------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Quantization policies of the fp8 schemes. The tensor core keeps fewer bits of
// its sums than f32 has, so all of them add partial sums to f32 registers after
// every 128 of k; those with a scale for every 128 of k apply it there.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/quant/none.cuh"

namespace moe::quant {

/// fp8_tensor and fp8_tensor_dynamic.
struct Fp8Tensor {
  static constexpr LhsScale kLhsScale = LhsScale::Tensor;
  static constexpr RhsScale kRhsScale = RhsScale::Tensor;
  static constexpr int kPromoteK = 128;
};

/// fp8_channel_static and others: one scale of the activations, one a weight
/// row.
struct Fp8TensorChannel {
  static constexpr LhsScale kLhsScale = LhsScale::Tensor;
  static constexpr RhsScale kRhsScale = RhsScale::Channel;
  static constexpr int kPromoteK = 128;
};

/// fp8_channel: a scale a token and one a weight row.
struct Fp8Channel {
  static constexpr LhsScale kLhsScale = LhsScale::Token;
  static constexpr RhsScale kRhsScale = RhsScale::Channel;
  static constexpr int kPromoteK = 128;
};

/// fp8_block and fp8_block_ue8m0: 128 of a token, 128 x 128 of a weight.
struct Fp8Block {
  static constexpr LhsScale kLhsScale = LhsScale::Group128;
  static constexpr RhsScale kRhsScale = RhsScale::Block128;
  static constexpr int kPromoteK = 128;
};

} // namespace moe::quant
