//===- Targets.h - the targets of a compilation, and refusals --*- C++ -*--===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What several front passes share: how arch and GPU names become targets, and
// how a layer is refused.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_PASSES_TARGETS_H
#define MOEC_COMPILER_PASSES_TARGETS_H

#include "dialect/Moe.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/Twine.h"

#include <string>

namespace moec::compiler {

/// The target of each arch, in the order given, each once. `gpu` is assumed
/// for the archs whose code it runs; the others, and all if it is empty, assume
/// the usual GPU of their row. Errors, at `location`: an unknown name; a GPU
/// that runs none of the archs.
llvm::FailureOr<llvm::SmallVector<moe::TargetAttr>>
targetsOf(mlir::Location location, llvm::ArrayRef<std::string> archs,
          llvm::StringRef gpu);

/// Whether the module has a program of the layer.
bool hasProgram(moe::LayerOp layer);

/// An error at the layer: "refused [code]: reason". `code` is stable.
mlir::LogicalResult refuse(moe::LayerOp layer, llvm::StringRef code,
                           const llvm::Twine &reason);
/// The same of a program, by the name of its layer.
mlir::LogicalResult refuse(moe::ProgramOp program, llvm::StringRef code,
                           const llvm::Twine &reason);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PASSES_TARGETS_H
