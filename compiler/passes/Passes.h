//===- Passes.h - the passes of the compiler -------------------*- C++ -*--===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Declares createXPass() and its options for each pass of Passes.td, and
// functions that several passes share: the targets for arch and GPU names, and
// errors for layers that are rejected.
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

/// Returns the target of each arch, in the given order, without duplicates.
/// Targets whose code `gpu` can run assume that GPU. The others, and all
/// targets if `gpu` is empty, assume the usual GPU of the arch's catalog row.
/// Emits an error at `location` if a name is unknown or if `gpu` runs none of
/// the archs.
llvm::FailureOr<llvm::SmallVector<moe::TargetAttr>>
targetsOf(mlir::Location location, llvm::ArrayRef<std::string> archs,
          llvm::StringRef gpu);

/// Returns true if the module contains a program of the layer.
bool hasProgram(moe::LayerOp layer);

/// Emits the error "refused [code]: reason" at the layer and returns failure.
/// `code` is stable.
mlir::LogicalResult refuse(moe::LayerOp layer, llvm::StringRef code,
                           const llvm::Twine &reason);
/// Emits this error at a program, naming its layer, and returns failure.
mlir::LogicalResult refuse(moe::ProgramOp program, llvm::StringRef code,
                           const llvm::Twine &reason);

// Parts of the pass moe-check-target.

/// Rejects options that are not supported if the package itself moves tokens
/// and partial sums between ranks (all_to_all = gather_scatter or one_sided).
mlir::LogicalResult checkCommunication(moe::LayerOp layer);

/// Reports an error for the layer. The checks continue, so that all errors are
/// reported.
using Refuse =
    llvm::function_ref<void(llvm::StringRef code, const llvm::Twine &reason)>;

/// Rejects element types and descriptors that no kernel supports.
void checkTypes(moe::LayerOp layer, Refuse refuse);

/// Rejects values of stored_layout, group_index and weights_dtype that no
/// kernel can pack.
mlir::LogicalResult checkStoredWeights(moe::LayerOp layer);

// Parts of the pass moe-make-variants.

/// Maximum token count of the two few-token kernels (compiler/matmul/Gemv.h),
/// which are used in addition to the program's engine. If it is 0, `code` and
/// `reason` may state why the kernels are not used.
struct FewTokens {
  int64_t tokens = 0;
  std::string engine, realization;
  std::string code, reason; ///< code is "" if nothing is reported
};

/// Returns the maximum token count of the few-token kernels for a program
/// without token ranges. After a dispatch, the tokens of all ranks count.
FewTokens fewTokensOf(moe::ProgramOp program, moe::VariantOp stages);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PASSES_PASSES_H
