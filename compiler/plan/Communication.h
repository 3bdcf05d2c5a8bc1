//===- Communication.h - what a rank expects of the others ------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A rank's package computes its share. What moves between ranks, and whether
// the package or its caller moves it, moe-resolve-parallel writes at the layer.
// It follows from options of the layer, so it is an attribute beside them:
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
  /// In place of all that: the transport that sends each rank the rows of its
  /// experts, with ids and weights, and brings their results back.
  std::string exchange;
  /// The package does it (all_to_all = gather_scatter or one_sided), not the
  /// caller.
  bool byPackage = false;
  /// Its kernels write into the windows of other ranks.
  bool oneSided = false;

  /// Distance between ranks that gather: between them are ranks with the same
  /// tokens.
  int64_t stride() const { return gather > 1 ? reduce : 1; }
};

/// The communication of a package that moves tokens and sums itself.
std::optional<Communication> movedByPackage(moe::LayerOp layer);

/// Absent for a rank alone.
void setCommunication(moe::LayerOp layer, const Communication &expected);
std::optional<Communication> communicationOf(moe::LayerOp layer);

/// The layer of which this is the part for ranks of equal shares, as its user
/// calls it; its own name where it has not been taken apart.
void setWholeLayer(moe::LayerOp layer, llvm::StringRef name);
std::string wholeLayerOf(moe::LayerOp layer);

/// The first of this rank's columns of the intermediate.
void setFirstColumn(moe::LayerOp layer, int64_t column);
int64_t firstColumnOf(moe::LayerOp layer);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_COMMUNICATION_H
