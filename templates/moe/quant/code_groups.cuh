//===- code_groups.cuh - codes that are multiplied directly -----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Quantization policies of 4-bit weights with 8-bit activations. A code
// (quantized value; of i4, minus 8) is representable in the activations'
// element type, so the engine multiplies codes and applies no scale to them.
// The partial accumulators of a group along k are multiplied by the group's
// weight-row scale and added to f32 totals. The activations' scales multiply
// the totals at the end.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/quant/none.cuh"

namespace moe::quant {

/// Policy of int4_w4aint8, int4_w4afp8, mxfp4_fp8 and other schemes with groups
/// of kGroup elements along k. Activations have one scale per token, or one
/// scale for all tokens.
template <int kGroup, LhsScale kLhs = LhsScale::Token> struct CodeGroups {
  static constexpr LhsScale kLhsScale = kLhs;
  static constexpr RhsScale kRhsScale = RhsScale::Groups;
  static constexpr int kPromoteK = kGroup;
  static constexpr bool kDequantizes = true;
};

/// Policy with one scale per weight row. `kPromote`: the kPromoteK of
/// Int8Channel (0) or Fp8Channel (128).
template <int kPromote> struct CodeChannel {
  static constexpr LhsScale kLhsScale = LhsScale::Token;
  static constexpr RhsScale kRhsScale = RhsScale::Channel;
  static constexpr int kPromoteK = kPromote;
  static constexpr bool kDequantizes = true;
};

} // namespace moe::quant
