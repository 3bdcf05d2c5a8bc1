//===- Communication.h - data that moves between ranks ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A rank's package computes one share of a layer. The pass moe-resolve-parallel
// derives from the layer's options which data moves between ranks, and whether
// the package or its caller moves the data. The result is stored in attributes
// of the layer:
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
  /// Number of ranks in the all-gather of x, logits and valid tokens; 1 if
  /// there is no all-gather.
  int64_t gather = 1;
  /// Number of ranks in the reduce-scatter of the outputs, after which each
  /// rank has its own tokens; 1 if there is no reduce-scatter.
  int64_t scatter = 1;
  /// Number of ranks in the all-reduce after the reduce-scatter; 1 if there is
  /// none.
  int64_t reduce = 1;
  /// True if the caller performs the all-reduce (skip_final_all_reduce).
  bool deferred = false;
  /// Name of the all-to-all transport, which replaces all collectives above;
  /// "": none. It sends each rank the rows of its experts, with top-k ids and
  /// weights, and returns the results.
  std::string exchange;
  /// True if the package performs the communication (all_to_all is
  /// gather_scatter or one_sided); false if the caller performs it.
  bool byPackage = false;
  /// True if the package's kernels write into other ranks' windows.
  bool oneSided = false;

  /// Returns the difference of consecutive ranks in one all-gather. The ranks
  /// between them have the same tokens.
  int64_t stride() const { return gather > 1 ? reduce : 1; }
};

/// Returns the layer's communication if the package performs it, else nullopt.
std::optional<Communication> movedByPackage(moe::LayerOp layer);

/// setCommunication() sets the communication attribute of a layer.
/// communicationOf() returns it, or nullopt for a layer on one rank.
void setCommunication(moe::LayerOp layer, const Communication &expected);
std::optional<Communication> communicationOf(moe::LayerOp layer);

/// setWholeLayer() records that `layer` is one share of the user's layer
/// `name`. Ranks with equal share sizes use the same share. wholeLayerOf()
/// returns the recorded name, or the layer's own name if the layer is not a
/// share.
void setWholeLayer(moe::LayerOp layer, llvm::StringRef name);
std::string wholeLayerOf(moe::LayerOp layer);

/// setFirstColumn() records the first intermediate column that this rank
/// computes. firstColumnOf() returns it.
void setFirstColumn(moe::LayerOp layer, int64_t column);
int64_t firstColumnOf(moe::LayerOp layer);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_COMMUNICATION_H
