//===- CudaBackend.h - writes package files ---------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The last step of the compiler. It makes no decisions and only writes what the
// module contains.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_EMIT_CUDABACKEND_H
#define MOEC_COMPILER_EMIT_CUDABACKEND_H

#include "runtime/package/Package.h"

#include "mlir/IR/BuiltinOps.h"

#include <string_view>

namespace moec::compiler {

/// Name of the package file with the layer as IR. The package can be compiled
/// again from this file.
inline constexpr std::string_view kLayerFile = "layer.mlir";

/// Emits the files of each share: the manifest, the layer, one .cu file per
/// kernel and arch, and the headers that the .cu files include. The module has
/// the programs of one layer, or of its shares from moe-resolve-parallel, with
/// one program per target. The returned manifests are validated. `version` is
/// the compiler version that the manifest records.
Result<Shares> emitCudaShares(mlir::ModuleOp module, std::string_view version);

} // namespace moec::compiler

#endif // MOEC_COMPILER_EMIT_CUDABACKEND_H
