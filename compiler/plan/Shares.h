//===- Shares.h - the part of a layer on a rank -----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A share is the part of a layer that one rank computes. Generated code depends
// only on the sizes in a share. Ranks with equal share sizes therefore run the
// same code, and receive their other values, such as the first expert, at run
// time.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_PLAN_SHARES_H
#define MOEC_COMPILER_PLAN_SHARES_H

#include "dialect/Moe.h"

#include <string>

namespace moec::compiler {

struct Share {
  /// The rank has the physical experts firstExpert + i * stride for 0 <= i <
  /// experts.
  int64_t firstExpert = 0, experts = 0, stride = 1;
  /// The rank has the intermediate columns [firstColumn, firstColumn +
  /// columns).
  int64_t firstColumn = 0, columns = 0;
  /// Columns of the shared experts' MLP, if that MLP has separate weights.
  int64_t firstSharedColumn = 0, sharedColumns = 0;
  bool addsW2Bias = true, addsZeroExperts = true;

  /// Returns true if the same kernels can compute both shares.
  bool hasSizesOf(const Share &other) const {
    return experts == other.experts && columns == other.columns &&
           sharedColumns == other.sharedColumns;
  }
};

/// Units, in intermediate columns, in which the intermediate is divided into
/// shards.
struct ShardUnits {
  /// Smallest number of columns that fills whole 16-byte chunks of a row of the
  /// second matmul's operands and, in gated layers, whole runs of kGateUpRun
  /// gate rows.
  int64_t piece;
  /// Smallest multiple of `piece` that contains whole weight-scale groups (w13
  /// rows and w2 columns) and whole groups of columns that are quantized
  /// together.
  int64_t group;
};
ShardUnits shardUnitsOf(moe::LayerOp layer);

/// Returns the maximum number of shards for an intermediate of `whole` columns.
int64_t mostShards(int64_t whole, const ShardUnits &units);

/// Returns the reason why the shared experts are computed as an MLP with
/// separate weights, as the end of a sentence. Returns "" if the layer has no
/// shared experts, or if their weights are stored as additional experts, which
/// needs no additional launch.
std::string whySharedMlp(moe::LayerOp layer);

/// Returns the number of ranks that compute the shared experts' MLP for the
/// same tokens. Each of these ranks computes a shard of the columns, and their
/// results are summed.
int64_t sharedShards(moe::LayerOp layer);

/// Returns the share of the rank with flattened index `rank`. The layer must
/// have at most mostShards() shards and at least as many experts as ranks.
Share shareOf(moe::LayerOp layer, int64_t rank);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_SHARES_H
