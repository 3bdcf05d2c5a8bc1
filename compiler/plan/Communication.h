//===- Communication.h - what a rank expects of the others ------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A rank's package computes its share and moves nothing between ranks: the
// caller does. What, moe-resolve-parallel writes at the layer, for the manifest
// to say; nothing that is compiled depends on it. So they are no options of
// the layer, but attributes beside them:
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
  /// x, logits and valid tokens of so many ranks come together; 1: the rank's
  /// own.
  int64_t gather = 1;
  /// Outputs are summed over so many ranks, of which each keeps its tokens'.
  int64_t scatter = 1;
  /// Then they are summed over so many ranks.
  int64_t reduce = 1;
  /// Somebody else does that, later (skip_final_all_reduce).
  bool deferred = false;
  /// In place of all that: the transport that sends each rank the rows of its
  /// experts, with ids and weights, and brings their results back.
  std::string exchange;
};

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
