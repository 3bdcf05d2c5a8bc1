//===- CheckStoredWeights.h - how weights may be stored ---------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_PASSES_CHECKSTOREDWEIGHTS_H
#define MOEC_COMPILER_PASSES_CHECKSTOREDWEIGHTS_H

#include "dialect/Moe.h"

namespace moec::compiler {

/// Refuses what no kernel packs: stored_layout, group_index and weights_type of
/// a layer. Part of moe-check-target.
mlir::LogicalResult checkStoredWeights(moe::LayerOp layer);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PASSES_CHECKSTOREDWEIGHTS_H
