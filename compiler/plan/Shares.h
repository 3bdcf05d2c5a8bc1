//===- Shares.h - the part of a layer on a rank -----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A share is the part of a layer that one rank computes. Generated code depends
// only on the sizes in a share. Ranks whose shares have equal sizes run the
// same code and pass the remaining values at run time.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_PLAN_SHARES_H
#define MOEC_COMPILER_PLAN_SHARES_H

#include "dialect/Moe.h"

#include <string>

namespace moec::compiler {

struct Share {
  /// Physical experts firstExpert + i * stride for i < `experts`.
  int64_t firstExpert = 0, experts = 0, stride = 1;
  /// Columns [firstColumn, firstColumn + columns) of the intermediate.
  int64_t firstColumn = 0, columns = 0;
  /// Columns of the shared experts' MLP, if it has its own weights.
  int64_t firstSharedColumn = 0, sharedColumns = 0;
  bool addsW2Bias = true, addsZeroExperts = true;

  /// Returns true if the same kernels serve both shares.
  bool hasSizesOf(const Share &other) const {
    return experts == other.experts && columns == other.columns &&
           sharedColumns == other.sharedColumns;
  }
};

/// Units in which the intermediate is divided into shards [columns].
struct ShardUnits {
  /// Columns of 16 bytes of the second matmul's operands, rounded up to whole
  /// runs of gate rows.
  int64_t piece;
  /// Multiple of `piece` that also covers whole groups of columns and rows that
  /// share a weight scale, and whole groups of columns that are quantized
  /// together.
  int64_t group;
};
ShardUnits shardUnitsOf(moe::LayerOp layer);

/// Returns the largest number of shards into which an intermediate of `whole`
/// columns can be divided.
int64_t mostShards(int64_t whole, const ShardUnits &units);

/// Returns why the shared experts are an MLP with separate weights, as the end
/// of a sentence. Returns "" if the layer has no shared experts, or if their
/// weights are additional rows of the routed experts' weights, which needs no
/// additional launch.
std::string whySharedMlp(moe::LayerOp layer);

/// Returns the number of ranks that compute the shared experts' MLP for the
/// same tokens. Each of them has a shard of the columns, and their results are
/// summed.
int64_t sharedShards(moe::LayerOp layer);

/// Returns the share of a flattened rank. The layer must have at most
/// mostShards() shards and at least as many experts as ranks.
Share shareOf(moe::LayerOp layer, int64_t rank);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_SHARES_H
