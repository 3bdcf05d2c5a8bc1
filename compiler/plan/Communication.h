//===- Communication.h - data that moves between ranks ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A rank's package computes one share of a layer. The pass moe-resolve-parallel
// derives from the layer's options what data moves between ranks, and whether
// the package or its caller moves it. The result is an attribute of the layer:
//
//   moe.first_column = 48
//   moe.communication = {gather = 2, scatter = 2, reduce = 4}
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_PLAN_COMMUNICATION_H
#define MOEC_COMPILER_PLAN_COMMUNICATION_H

#include "dialect/Moe.h"

#include <optional>
#include <string>

namespace moec::compiler {

struct Communication {
  /// The number of ranks in the all-gather of x, logits and valid tokens; 1 if
  /// there is no all-gather.
  int64_t gather = 1;
  /// The number of ranks in the reduce-scatter of outputs. Each rank keeps its
  /// own tokens.
  int64_t scatter = 1;
  /// The number of ranks in the all-reduce that follows.
  int64_t reduce = 1;
  /// The caller performs the all-reduce (skip_final_all_reduce).
  bool deferred = false;
  /// Replaces all of the above: the name of the all-to-all transport. It sends
  /// each rank the rows of its experts, with top-k ids and weights, and returns
  /// the results.
  std::string exchange;
  /// True if the package performs the communication (all_to_all =
  /// gather_scatter or one_sided), false if the caller does.
  bool byPackage = false;
  /// The package's kernels write into the windows of other ranks.
  bool oneSided = false;

  /// Returns the distance between the ranks of one all-gather. The ranks
  /// between two of them have the same tokens.
  int64_t stride() const { return gather > 1 ? reduce : 1; }
};

/// Returns the layer's communication if the package performs it, else nullopt.
std::optional<Communication> movedByPackage(moe::LayerOp layer);

/// setCommunication() sets the communication attribute of a layer, and
/// communicationOf() returns it. A layer that runs on one rank has none.
void setCommunication(moe::LayerOp layer, const Communication &expected);
std::optional<Communication> communicationOf(moe::LayerOp layer);

/// setWholeLayer() records that a layer is a share, for ranks with shares of
/// equal sizes, of the user's layer `name`. wholeLayerOf() returns this name,
/// or the layer's own name if the layer is not a share.
void setWholeLayer(moe::LayerOp layer, llvm::StringRef name);
std::string wholeLayerOf(moe::LayerOp layer);

/// setFirstColumn() records the first column of the intermediate that this rank
/// computes, and firstColumnOf() returns it.
void setFirstColumn(moe::LayerOp layer, int64_t column);
int64_t firstColumnOf(moe::LayerOp layer);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_COMMUNICATION_H
