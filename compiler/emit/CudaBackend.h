//===- CudaBackend.h - from scheduled IR to package files -------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The last step of the compiler: no decision is made here, everything is read
// from the module.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_EMIT_CUDABACKEND_H
#define MOEC_COMPILER_EMIT_CUDABACKEND_H

#include "runtime/package/Package.h"

#include "mlir/IR/BuiltinOps.h"

#include <string_view>

namespace moec::compiler {

/// The layer as IR, from which a package is compiled again.
inline constexpr std::string_view kLayerFile = "layer.mlir";

/// Manifest, the layer, one .cu per kernel and arch, and the headers that they
/// include, of each share. The module holds the programs of one layer, or of
/// the shares that moe-resolve-parallel has made of it, one per target. The
/// results have been validated. `version`: of the compiler, for the manifest.
Result<Shares> emitCudaShares(mlir::ModuleOp module, std::string_view version);

} // namespace moec::compiler

#endif // MOEC_COMPILER_EMIT_CUDABACKEND_H
