//===- Passes.h - the passes of the compiler -------------------*- C++ -*--===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Declares createXPass() and its options for each pass of Passes.td, and what
// several passes share: how arch and GPU names become targets, and how a layer
// is refused.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_PASSES_PASSES_H
#define MOEC_COMPILER_PASSES_PASSES_H

#include "dialect/Moe.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/Twine.h"

#include <cstdint>
#include <string>

namespace moec::compiler {

#define GEN_PASS_DECL
#include "compiler/passes/Passes.h.inc"

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

// Parts of moe-check-target.

/// Refuses what a package that moves tokens and sums between ranks itself
/// (all_to_all = gather_scatter) does not do.
mlir::LogicalResult checkCommunication(moe::LayerOp layer);

/// Records a refusal of the layer; the checks go on.
using Refuse =
    llvm::function_ref<void(llvm::StringRef code, const llvm::Twine &reason)>;

/// Refuses element types and descriptors that no kernel takes.
void checkTypes(moe::LayerOp layer, Refuse refuse);

/// Refuses values of stored_layout, group_index and weights_dtype that no
/// kernel packs.
mlir::LogicalResult checkStoredWeights(moe::LayerOp layer);

// Part of moe-make-variants.

/// The two kernels of a few tokens (matmul/Gemv.h) serve next to the program's
/// engine: up to how many tokens, or why they serve none.
struct FewTokens {
  int64_t tokens = 0;
  std::string engine, realization;
  std::string code, reason; ///< no code: nobody needs to know
};

/// The tokens of stages without ranges. Behind a dispatch they are those of all
/// its ranks.
FewTokens fewTokensOf(moe::ProgramOp program, moe::VariantOp stages);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PASSES_PASSES_H
