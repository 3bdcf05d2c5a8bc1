//===- PermuteColumnsEmitter.h - rows as their weight -----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What kernels of templates/moe/kernel/permute_columns.cuh are given.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_BACKEND_CUDA_PERMUTECOLUMNSEMITTER_H
#define MOEC_COMPILER_BACKEND_CUDA_PERMUTECOLUMNSEMITTER_H

#include "compiler/backend/cuda/KernelEmitter.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace moec::compiler {

/// Completes `out`, whose common parts are set, for a kernel of this stage.
/// `boundTo`: the program's name for what is bound to a field.
void emitPermuteColumns(
    moe::PermuteColumnsOp permute,
    llvm::function_ref<std::string(llvm::StringRef)> boundTo,
    EmittedKernel &out);

} // namespace moec::compiler

#endif // MOEC_COMPILER_BACKEND_CUDA_PERMUTECOLUMNSEMITTER_H
