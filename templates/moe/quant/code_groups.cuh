//===- code_groups.cuh - codes multiplied as integers are -------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Quantization policies of weights of 4 bits with activations of 8: a code (of
// i4, less 8) is a number that they have, so that the engine of these
// multiplies it. Sums of a group along k become f32 totals, scaled by the
// group's scale of the weight row; the activations' scales multiply finished
// ones.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/quant/none.cuh"

namespace moe::quant {

/// int4_w4aint8, int4_w4afp8, mxfp4_fp8 and other groups: a scale a token, or
/// one of all activations.
template <int kGroup, LhsScale kLhs = LhsScale::Token> struct CodeGroups {
  static constexpr LhsScale kLhsScale = kLhs;
  static constexpr RhsScale kRhsScale = RhsScale::Groups;
  static constexpr int kPromoteK = kGroup;
  static constexpr bool kDequantizes = true;
};

/// One group: a scale a weight row. kPromote: as of Int8Channel or Fp8Channel.
template <int kPromote> struct CodeChannel {
  static constexpr LhsScale kLhsScale = LhsScale::Token;
  static constexpr RhsScale kRhsScale = RhsScale::Channel;
  static constexpr int kPromoteK = kPromote;
  static constexpr bool kDequantizes = true;
};

} // namespace moe::quant
