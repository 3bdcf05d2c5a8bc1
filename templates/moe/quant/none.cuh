//===- none.cuh - operands that are stored as they are ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Quantization policy of f32, f16 and bf16 layers, and what a policy says:
// which scales each operand has. How they are applied: scales.cuh.
//
//===----------------------------------------------------------------------===//

#pragma once

namespace moe::quant {

/// The values that share a scale of the lhs (activations).
enum class LhsScale {
  None,
  Tensor,  ///< [1]
  Token,   ///< [lhs rows, 1]
  Group128 ///< [lhs rows, ceildiv(k, 128)]
};

/// The values that share a scale of the rhs (weights). If gate and up rows are
/// interleaved, scales are as stored: all gates, then all ups.
enum class RhsScale {
  None,
  Tensor,  ///< [experts, 2 for gate and up, else 1]
  Channel, ///< [experts, n]
  /// [experts, ceildiv(n, 128), ceildiv(k, 128)]; gate and up rows begin blocks
  /// of their own: 2 * ceildiv(n / 2, 128)
  Block128,
  /// [experts, n, ceildiv(k, kPromoteK)], of Config's type Scale
  Groups
};

struct None {
  static constexpr LhsScale kLhsScale = LhsScale::None;
  static constexpr RhsScale kRhsScale = RhsScale::None;
  /// Sums are added to f32 registers after so many elements of k; 0: the
  /// instruction's own sums are as exact.
  static constexpr int kPromoteK = 0;
};

} // namespace moe::quant
