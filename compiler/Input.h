//===- Input.h - an input on its way to a package ---------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The command and the C ABI read, lower, compile and explain an input by it.
// Errors of later passes are in the input's own words.
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

/// A context for inputs, one after the other.
std::unique_ptr<mlir::MLIRContext> makeContext();

/// An input in a context, which is its own unless one is given.
class Input {
public:
  Input() : own(makeContext()), context(*own) {}
  explicit Input(mlir::MLIRContext &context) : context(context) {}

  /// As importFile.
  Result<void> readFile(const std::string &path, const ImportOptions &options);
  /// As importInput.
  Result<void> readText(std::string_view text, std::string_view name,
                        const ImportOptions &options);

  /// As lower().
  Result<void> lowerTo(Phase phase, const CompileOptions &options);
  /// Lowers it; the report of `moec explain --json`.
  Result<nlohmann::ordered_json> explain(const CompileOptions &options,
                                         const ExplainOptions &expected);
  /// As compileShares().
  Result<Shares> compile(const CompileOptions &options);

  /// The module as it is by now; null before it was read.
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
