//===- CheckCommunication.h - what a package moves --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Part of moe-check-target.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_PASSES_CHECKCOMMUNICATION_H
#define MOEC_COMPILER_PASSES_CHECKCOMMUNICATION_H

#include "dialect/Moe.h"

namespace moec::compiler {

/// Refuses what a package that moves tokens and sums between ranks itself
/// (all_to_all = gather_scatter) does not do.
mlir::LogicalResult checkCommunication(moe::LayerOp layer);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PASSES_CHECKCOMMUNICATION_H
