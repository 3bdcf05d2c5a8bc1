//===- Compiler.h - the compiler's interface --------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compiles a module with moe.layer ops, or the printed result of a later phase,
// to a package. The tools, libmoec.so and the tests use only this interface of
// the compiler. Diagnostics of the passes are returned as the text of the
// Error.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_COMPILER_H
#define MOEC_COMPILER_COMPILER_H

#include "compiler/CompileOptions.h"
#include "runtime/package/Package.h"
#include "runtime/support/Result.h"

#include "mlir/IR/OwningOpRef.h"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mlir {
class DialectRegistry;
class MLIRContext;
class ModuleOp;
} // namespace mlir

namespace moec::compiler {

/// Returns the phase for a name that --emit accepts, or nullopt.
std::optional<Phase> parsePhase(std::string_view name);
std::string_view phaseName(Phase phase);
/// Returns the names of all phases, in order.
std::vector<std::string> phaseNames();

/// Registers the dialects that a module for this compiler may use.
void registerDialects(mlir::DialectRegistry &registry);

/// Parses a module. Errors contain line, column and `name`.
Result<mlir::OwningOpRef<mlir::ModuleOp>>
parse(std::string_view text, std::string_view name, mlir::MLIRContext &context);

/// Runs the passes up to and including `phase` on the module in place. Phases
/// after Scheduled run the passes up to Scheduled. Steps that an earlier call
/// or process has already run are not repeated, but their result is verified.
/// After an error, the state of the module is unspecified.
Result<void> lower(mlir::ModuleOp module, Phase phase,
                   const CompileOptions &options);

/// Returns the text that --emit prints for the module; parse() can read it
/// again.
std::string print(mlir::ModuleOp module);

/// Emits a scheduled module: manifest, sources and headers, but no cubins. A
/// share is the part of the layer that one set of ranks computes; there is one
/// share for each distinct size. The manifests are validated.
Result<Shares> emitShares(mlir::ModuleOp module);
/// Like emitShares(), for a module with one share; several shares are an error.
Result<PackageFiles> emit(mlir::ModuleOp module);

/// Calls emitShares() on a scheduled module, and addCubins() unless cubins are
/// switched off.
Result<Shares> makeShares(mlir::ModuleOp module, const CompileOptions &options);

/// Calls lower() up to Scheduled, then makeShares().
Result<Shares> compileShares(mlir::ModuleOp module,
                             const CompileOptions &options);
/// Like compileShares(), for a module with one share; several shares are an
/// error.
Result<PackageFiles> compile(mlir::ModuleOp module,
                             const CompileOptions &options);

/// Compiles every kernel of every target, or loads it from the cache, and adds
/// the cubins to the package and its manifest.
Result<void> addCubins(PackageFiles &files, const CompileOptions &options);

/// Returns the PTX of every kernel, by "<arch>/<kernel>.ptx".
Result<std::map<std::string, std::string>>
compileToPtx(const PackageFiles &files);

/// Returns the compiler's name and version as in the manifest, "moec 0.1.0".
std::string_view compilerVersion();

} // namespace moec::compiler

#endif // MOEC_COMPILER_COMPILER_H
