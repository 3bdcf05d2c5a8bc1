//===- Import.h - foreign configurations into moe.layer ---------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one door for inputs. `moec` and the C ABI (moec_compile_config) give it
// a text; what kind of text it is, the content says, not the file's name:
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

/// The module that `text` means: one moe.layer for JSON, the parsed module for
/// .mlir. `name` is the file's path; it stands before every error and, without
/// folder and ending, names the layer where the input itself does not. The
/// context must know the moe dialect (registerDialects of Compiler.h).
///
/// `words` gets the input's own words, for the messages of later passes.
///
/// Errors: MOEC_REFUSED with file, JSON path, what was expected, what came. An
/// option that says nothing about this kind of input (--layer with a layer
/// JSON, --tp with .mlir) is refused, not ignored.
Result<mlir::OwningOpRef<mlir::ModuleOp>>
importInput(std::string_view text, std::string_view name,
            const ImportOptions &options, mlir::MLIRContext &context,
            Words *words = nullptr);

/// The same from a file, at most 64 MiB; "-" reads standard input, and of a
/// folder its config.json is read.
Result<mlir::OwningOpRef<mlir::ModuleOp>>
importFile(const std::string &given, const ImportOptions &options,
           mlir::MLIRContext &context, Words *words = nullptr);

/// The layer that a file of JSON means, as importFile finds it.
Result<LayerDescription> describeFile(const std::string &given,
                                      const ImportOptions &options);

/// A module with one verified moe.layer. `name` is the input's, for messages;
/// what the dialect's verifiers refuse comes back as the error's text.
Result<mlir::OwningOpRef<mlir::ModuleOp>>
buildLayer(const LayerDescription &layer, std::string_view name,
           mlir::MLIRContext &context);

} // namespace moec::compiler

#endif // MOEC_COMPILER_IMPORT_IMPORT_H
