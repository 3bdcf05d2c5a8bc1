//===- ColumnsEmitter.h - rows as their expert's weight ---------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_BACKEND_CUDA_COLUMNSEMITTER_H
#define MOEC_COMPILER_BACKEND_CUDA_COLUMNSEMITTER_H

#include "compiler/backend/cuda/KernelEmitter.h"

namespace moec::compiler {

/// Adds arguments, Config, stage and grid of a kernel that has begun. `boundTo`
/// is the value of the program behind a field.
void emitColumns(moe::PermuteColumnsOp permute,
                 llvm::function_ref<std::string(llvm::StringRef)> boundTo,
                 EmittedKernel &out);

} // namespace moec::compiler

#endif // MOEC_COMPILER_BACKEND_CUDA_COLUMNSEMITTER_H
