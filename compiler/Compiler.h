//===- Compiler.h - the compiler's façade -----------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// From a module that holds moe.layer ops (or the printed result of any later
// phase) to a package. The tools, libmoec.so and the tests call this and
// nothing behind it. Diagnostics of the passes come back as the Error's text.
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

/// The name as --emit spells it; nullopt for an unknown one.
std::optional<Phase> parsePhase(std::string_view name);
std::string_view phaseName(Phase phase);
/// The names of all, in order.
std::vector<std::string> phaseNames();

/// Registers the dialects that a module for this compiler may use.
void registerDialects(mlir::DialectRegistry &registry);

/// Parses a module; errors carry line, column and `name`.
Result<mlir::OwningOpRef<mlir::ModuleOp>>
parse(std::string_view text, std::string_view name, mlir::MLIRContext &context);

/// Runs the passes up to and with `phase` (Layer to Scheduled; later phases
/// mean Scheduled) in place. What an earlier call or an earlier process
/// already did is not done again, but checked. On an error the module is
/// unspecified.
Result<void> lower(mlir::ModuleOp module, Phase phase,
                   const CompileOptions &options);

/// The module as --emit prints it; parse() reads it again.
std::string print(mlir::ModuleOp module);

/// Emits a scheduled module: manifest, sources and headers, no cubins. A share
/// for each size that shares of the layer's ranks have. The manifests have been
/// validated.
Result<Shares> emitShares(mlir::ModuleOp module);
/// The same where there is one share; several are refused.
Result<PackageFiles> emit(mlir::ModuleOp module);

/// emitShares() of a scheduled module and, unless switched off, addCubins().
Result<Shares> makeShares(mlir::ModuleOp module, const CompileOptions &options);

/// lower() to Scheduled and makeShares().
Result<Shares> compileShares(mlir::ModuleOp module,
                             const CompileOptions &options);
/// The same where there is one share; several are refused.
Result<PackageFiles> compile(mlir::ModuleOp module,
                             const CompileOptions &options);

/// Compiles every kernel of every target (from the cache where it can) and
/// adds the cubins to the package and its manifest.
Result<void> addCubins(PackageFiles &files, const CompileOptions &options);

/// The PTX of every kernel, by "<arch>/<kernel>.ptx".
Result<std::map<std::string, std::string>>
compileToPtx(const PackageFiles &files);

/// The compiler as the manifest names it, "moec 0.1.0".
std::string_view compilerVersion();

} // namespace moec::compiler

#endif // MOEC_COMPILER_COMPILER_H
