//===- DequantizeEmitter.h - text and stage of a dequantization -*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What kernels of templates/moe/kernel/dequantize.cuh are given: x as it comes
// quantized, and where what its codes stand for goes.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_BACKEND_CUDA_DEQUANTIZEEMITTER_H
#define MOEC_COMPILER_BACKEND_CUDA_DEQUANTIZEEMITTER_H

#include "compiler/backend/cuda/KernelEmitter.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace moec::compiler {

/// Completes `out`, whose common parts are set, for a kernel that holds a
/// moe.dequantize. `boundTo`: the program's name for what is bound to a field.
void emitDequantization(
    moe::KernelOp kernel,
    llvm::function_ref<std::string(llvm::StringRef)> boundTo,
    EmittedKernel &out);

} // namespace moec::compiler

#endif // MOEC_COMPILER_BACKEND_CUDA_DEQUANTIZEEMITTER_H
