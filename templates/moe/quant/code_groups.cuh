//===- code_groups.cuh - codes that are multiplied directly -----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Quantization policies of weights of 4 bits with activations of 8 bits. A code
// (quantized value; of i4, minus 8) is representable in the activations'
// element type, so the engine of that type multiplies it. Accumulators of a
// group along k are scaled by the group's scale of the weight row and added to
// f32 totals. The activations' scales multiply the final accumulators.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/quant/none.cuh"

namespace moe::quant {

/// Policy of int4_w4aint8, int4_w4afp8, mxfp4_fp8 and other schemes with
/// groups. Activations have one scale for each token, or one for all.
template <int kGroup, LhsScale kLhs = LhsScale::Token> struct CodeGroups {
  static constexpr LhsScale kLhsScale = kLhs;
  static constexpr RhsScale kRhsScale = RhsScale::Groups;
  static constexpr int kPromoteK = kGroup;
  static constexpr bool kDequantizes = true;
};

/// Policy with one group: one scale for each weight row. `kPromote`: kPromoteK
/// of Int8Channel or Fp8Channel.
template <int kPromote> struct CodeChannel {
  static constexpr LhsScale kLhsScale = LhsScale::Token;
  static constexpr RhsScale kRhsScale = RhsScale::Channel;
  static constexpr int kPromoteK = kPromote;
  static constexpr bool kDequantizes = true;
};

} // namespace moe::quant
