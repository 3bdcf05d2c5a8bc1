//===- CudaBackend.h - writes package files ---------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The last step of the compiler. It makes no decisions; everything is read from
// the module.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_EMIT_CUDABACKEND_H
#define MOEC_COMPILER_EMIT_CUDABACKEND_H

#include "runtime/package/Package.h"

#include "mlir/IR/BuiltinOps.h"

#include <string_view>

namespace moec::compiler {

/// Name of the file with the layer as IR, from which the package can be
/// compiled again.
inline constexpr std::string_view kLayerFile = "layer.mlir";

/// Emits the files of each share: the manifest, the layer, one .cu file for
/// each kernel and arch, and the headers that these include. The module has the
/// programs of one layer, or of its shares from moe-resolve-parallel, one for
/// each target. The returned manifests are validated. `version` is the
/// compiler's version, for the manifest.
Result<Shares> emitCudaShares(mlir::ModuleOp module, std::string_view version);

} // namespace moec::compiler

#endif // MOEC_COMPILER_EMIT_CUDABACKEND_H
