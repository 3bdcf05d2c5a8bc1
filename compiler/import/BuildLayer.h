//===- BuildLayer.h - a description becomes moe.layer -----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one place where importers meet the dialect.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_IMPORT_BUILDLAYER_H
#define MOEC_COMPILER_IMPORT_BUILDLAYER_H

#include "compiler/import/LayerDescription.h"
#include "runtime/support/Result.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <string_view>

namespace moec::compiler {

/// A module with one verified moe.layer. `name` is the input's, for messages;
/// what the dialect's verifiers refuse comes back as the error's text.
Result<mlir::OwningOpRef<mlir::ModuleOp>>
buildLayer(const LayerDescription &layer, std::string_view name,
           mlir::MLIRContext &context);

} // namespace moec::compiler

#endif // MOEC_COMPILER_IMPORT_BUILDLAYER_H
