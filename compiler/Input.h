//===- Input.h - an input of the compiler -----------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The command and the C ABI use this class to read, lower, compile and explain
// an input. Errors of later passes use the names of the input.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_INPUT_H
#define MOEC_COMPILER_INPUT_H

#include "compiler/Compiler.h"
#include "compiler/import/Import.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"

#include <nlohmann/json_fwd.hpp>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace moec::compiler {

/// Returns a context in which several inputs can be read one after another.
std::unique_ptr<mlir::MLIRContext> makeContext();

/// An input's module and the MLIR context that holds it. The Input owns the
/// context unless the caller passes one.
class Input {
public:
  Input() : own(makeContext()), context(*own) {}
  explicit Input(mlir::MLIRContext &context) : context(context) {}

  /// Reads a file; see importFile().
  Result<void> readFile(const std::string &path, const ImportOptions &options);
  /// Reads a text; see importInput().
  Result<void> readText(std::string_view text, std::string_view name,
                        const ImportOptions &options);

  /// Lowers the module; see lower() in compiler/Compiler.h.
  Result<void> lowerTo(Phase phase, const CompileOptions &options);
  /// Lowers the module and returns the report of `moec explain --json`.
  Result<nlohmann::ordered_json> explain(const CompileOptions &options,
                                         const ExplainOptions &expected);
  /// Compiles the module; see compileShares() in compiler/Compiler.h.
  Result<Shares> compile(const CompileOptions &options);

  /// Returns the module in its current state, or null before an input is read.
  mlir::ModuleOp get() { return module ? *module : mlir::ModuleOp(); }

private:
  Error inInputsWords(const Error &error) const;

  std::unique_ptr<mlir::MLIRContext> own;
  mlir::MLIRContext &context;
  Words words;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

} // namespace moec::compiler

#endif // MOEC_COMPILER_INPUT_H
