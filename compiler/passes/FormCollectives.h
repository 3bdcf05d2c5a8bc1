//===- FormCollectives.h - stages between ranks -----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Part of moe-form-kernels.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_PASSES_FORMCOLLECTIVES_H
#define MOEC_COMPILER_PASSES_FORMCOLLECTIVES_H

#include "dialect/Moe.h"

#include "mlir/IR/Builders.h"

namespace moec::compiler {

/// Whether the stage is one between ranks that no kernel holds: a library does
/// it.
bool isBetweenRanks(mlir::Operation *stage);

/// Whether the stage is of this rank's tokens, before those of others come.
bool isBeforeDispatch(mlir::Operation *stage);

/// Puts collectives in place of a stage between ranks.
void formCollectives(mlir::OpBuilder &builder, mlir::Operation *stage);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PASSES_FORMCOLLECTIVES_H
