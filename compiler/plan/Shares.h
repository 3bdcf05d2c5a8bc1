//===- Shares.h - what a rank holds of a layer ------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A share has the sizes that code depends on. Ranks whose shares have equal
// sizes run the same code; the rest are numbers that a rank hands to it.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_PLAN_SHARES_H
#define MOEC_COMPILER_PLAN_SHARES_H

#include "dialect/Moe.h"

namespace moec::compiler {

struct Share {
  /// Physical experts: begin + i * stride, so many of them.
  int64_t firstExpert = 0, experts = 0, stride = 1;
  /// Columns of the intermediate: from the first, so many.
  int64_t firstColumn = 0, columns = 0;
  bool addsW2Bias = true, addsZeroExperts = true;

  /// Whether one code serves both.
  bool hasSizesOf(const Share &other) const {
    return experts == other.experts && columns == other.columns;
  }
};

/// Columns that a shard of the intermediate has a whole number of: those of 16
/// bytes of the second matmul's operands, of runs of gate rows, and of rows or
/// columns that share a weight scale.
int64_t shardUnit(moe::LayerOp layer);

/// The share of a flattened rank. There are at most as many shards as units,
/// and ranks as experts.
Share shareOf(moe::LayerOp layer, int64_t rank);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_SHARES_H
