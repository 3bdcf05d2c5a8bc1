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

#include <string>

namespace moec::compiler {

struct Share {
  /// Physical experts: firstExpert + i * stride for i below `experts`.
  int64_t firstExpert = 0, experts = 0, stride = 1;
  /// Columns of the intermediate: `columns`, from firstColumn on.
  int64_t firstColumn = 0, columns = 0;
  /// Columns of the MLP of shared experts, where that is one of its own.
  int64_t firstSharedColumn = 0, sharedColumns = 0;
  bool addsW2Bias = true, addsZeroExperts = true;

  /// Returns true if the same kernels serve both shares.
  bool hasSizesOf(const Share &other) const {
    return experts == other.experts && columns == other.columns &&
           sharedColumns == other.sharedColumns;
  }
};

/// The parts of an intermediate that a shard holds whole [columns].
struct ShardUnits {
  /// 16 bytes of the second matmul's operands, and a run of gate rows.
  int64_t piece;
  /// Whole pieces, rows and columns that share a weight scale, and columns that
  /// are quantized together.
  int64_t group;
};
ShardUnits shardUnitsOf(moe::LayerOp layer);

/// The largest number of shards of an intermediate of `whole` columns.
int64_t mostShards(int64_t whole, const ShardUnits &units);

/// Why the shared experts of a layer are an MLP with weights of its own, as the
/// end of a sentence. "" where they are rows of the others' weights, which
/// takes no launch of its own, or where there are none.
std::string whySharedMlp(moe::LayerOp layer);

/// The ranks that compute the MLP of the same tokens, of which each has a shard
/// of the columns, and adds its part before they sum.
int64_t sharedShards(moe::LayerOp layer);

/// The share of a flattened rank. There are at most `mostShards` shards, and as
/// many ranks as experts.
Share shareOf(moe::LayerOp layer, int64_t rank);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_SHARES_H
