//===- KernelEmitter.h - one scheduled kernel as text -----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The row of a kernel's kind says its template, and where it can its argument
// block and Config. There is one function for each other kind.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_EMIT_KERNELEMITTER_H
#define MOEC_COMPILER_EMIT_KERNELEMITTER_H

#include "compiler/emit/EmittedKernel.h"

namespace moec::compiler {

/// A kernel with the values that `launch` binds to its fields. Every launch
/// of one kernel binds the same (moe-merge-kernels sees to it).
Result<EmittedKernel> emitKernel(moe::KernelOp kernel, moe::LaunchOp launch);

} // namespace moec::compiler

#endif // MOEC_COMPILER_EMIT_KERNELEMITTER_H
