//===- none.cuh - operands without quantization -----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The quantization policy of f32, f16 and bf16 layers, and the enumerations
// that all policies use: a policy specifies the scales of both operands.
// moe/matmul/feed/scales.cuh applies them.
//
//===----------------------------------------------------------------------===//

#pragma once

namespace moe::quant {

/// The granularity of the scales of lhs (activations).
enum class LhsScale {
  None,
  Tensor,  ///< [1]
  Token,   ///< [lhs rows, 1]
  Group128 ///< [lhs rows, ceildiv(k, 128)]
};

/// The granularity of the scales of rhs (weights). If gate and up rows are
/// interleaved, scales are in stored order: all gates, then all ups.
enum class RhsScale {
  None,
  Tensor,  ///< [experts, 2 for gate and up, else 1]
  Channel, ///< [experts, n]
  /// [experts, ceildiv(n, 128), ceildiv(k, 128)]; blocks contain only gate rows
  /// or only up rows, which makes 2 * ceildiv(n / 2, 128) rows of blocks
  Block128,
  /// [experts, n, ceildiv(k, kPromoteK)], of Config's type Scale
  Groups
};

struct None {
  static constexpr LhsScale kLhsScale = LhsScale::None;
  static constexpr RhsScale kRhsScale = RhsScale::None;
  /// Elements along k after which accumulators are promoted to f32 totals; 0 if
  /// the instruction accumulates accurately enough.
  static constexpr int kPromoteK = 0;
};

} // namespace moe::quant
