//===- none.cuh - operands without quantization -----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The quantization policy of f32, f16 and bf16 layers, and the enumerations
// that all policies use. A policy specifies the granularity of the scales of
// both operands. moe/matmul/feed/scales.cuh applies the scales.
//
//===----------------------------------------------------------------------===//

#pragma once

namespace moe::quant {

/// Granularity of the scales of lhs (activations), with the shape of lhs_scale.
enum class LhsScale {
  None,
  Tensor,  ///< [1]
  Token,   ///< [lhs rows, 1]
  Group128 ///< [lhs rows, ceildiv(k, 128)]
};

/// Granularity of the scales of rhs (weights), with the shape of rhs_scale.
/// Scales are in the checkpoint's row order (moe/core/gate_up.cuh), even if the
/// packed weight interleaves gate and up rows.
enum class RhsScale {
  None,
  Tensor,  ///< [experts, 2] with gate and up, else [experts, 1]
  Channel, ///< [experts, n]
  /// [experts, row blocks, ceildiv(k, 128)]. A block has only gate rows or only
  /// up rows, so there are ceildiv(n, 128) row blocks, or 2 * ceildiv(n / 2,
  /// 128) with gate and up.
  Block128,
  /// [experts, n, ceildiv(k, kPromoteK)], of type Config::Scale.
  Groups
};

struct None {
  static constexpr LhsScale kLhsScale = LhsScale::None;
  static constexpr RhsScale kRhsScale = RhsScale::None;
  /// Number of elements along k after which accumulators are added to f32
  /// totals; 0 if the MMA instruction accumulates accurately enough.
  static constexpr int kPromoteK = 0;
};

} // namespace moe::quant
