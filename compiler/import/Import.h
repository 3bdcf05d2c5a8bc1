//===- Import.h - inputs as moe.layer ---------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The only entry point for inputs. `moec` and the C ABI (moec_compile_config)
// pass a text; its content, not the file's name, determines its format:
//
//   a JSON object with "moec_layer"                    a layer JSON
//   a JSON object with "architectures" or "model_type" Hugging Face config.json
//   anything else                                      .mlir of any phase
//
// docs/reference/layer-json.md describes the first two.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_IMPORT_IMPORT_H
#define MOEC_COMPILER_IMPORT_IMPORT_H

#include "compiler/import/ImportOptions.h"
#include "compiler/import/LayerDescription.h"
#include "runtime/support/Result.h"

#include "mlir/IR/OwningOpRef.h"

#include <string_view>

namespace mlir {
class MLIRContext;
class ModuleOp;
} // namespace mlir

namespace moec::compiler {

/// Converts a text to a module: one moe.layer for JSON, the parsed module for
/// .mlir. `name` is the file's path. It is the prefix of every error, and
/// without folder and extension it is the name of the layer if the input has
/// none. The context must have the moe dialect loaded (registerDialects() in
/// compiler/Compiler.h).
///
/// `words`, if not null, receives the input's own names, for the messages of
/// later passes.
///
/// Errors are MOEC_REFUSED with file, JSON path, expected value and actual
/// value. An option that does not apply to the format of the input (--layer
/// with a layer JSON, --tp with .mlir) is an error, not ignored.
Result<mlir::OwningOpRef<mlir::ModuleOp>>
importInput(std::string_view text, std::string_view name,
            const ImportOptions &options, mlir::MLIRContext &context,
            Words *words = nullptr);

/// Like importInput(), for a file of at most 64 MiB. "-" reads standard input;
/// for a folder, its config.json is read.
Result<mlir::OwningOpRef<mlir::ModuleOp>>
importFile(const std::string &given, const ImportOptions &options,
           mlir::MLIRContext &context, Words *words = nullptr);

/// Returns the layer that a JSON file describes; the file is found as by
/// importFile().
Result<LayerDescription> describeFile(const std::string &given,
                                      const ImportOptions &options);

/// Returns a module with one verified moe.layer. `name` is the input's name,
/// for messages. Errors of the dialect's verifiers are returned as the error's
/// text.
Result<mlir::OwningOpRef<mlir::ModuleOp>>
buildLayer(const LayerDescription &layer, std::string_view name,
           mlir::MLIRContext &context);

} // namespace moec::compiler

#endif // MOEC_COMPILER_IMPORT_IMPORT_H
