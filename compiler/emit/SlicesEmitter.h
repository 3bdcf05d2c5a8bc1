//===- SlicesEmitter.h - second matmul and combine, one kernel --*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The kernel that makes the result in slices of its columns and sums each over
// a token's experts (engine/Slices.h).
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_EMIT_SLICESEMITTER_H
#define MOEC_COMPILER_EMIT_SLICESEMITTER_H

#include "compiler/emit/EmittedKernel.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace moec::compiler {

/// Adds everything but what all kernels have. boundTo: the program's name for
/// what is bound to a field.
void emitSlices(moe::KernelOp kernel,
                llvm::function_ref<std::string(llvm::StringRef)> boundTo,
                EmittedKernel &out);

} // namespace moec::compiler

#endif // MOEC_COMPILER_EMIT_SLICESEMITTER_H
