//===- QuantizeEmitter.h - text and stages of quantization ------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What kernels of templates/moe/kernel/quantize.cuh are given: the block maxima
// of a dynamic scale of all values, and activations in e4m3 with their scales.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_EMIT_QUANTIZEEMITTER_H
#define MOEC_COMPILER_EMIT_QUANTIZEEMITTER_H

#include "compiler/emit/EmittedKernel.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace moec::compiler {

/// Completes `out`, whose common parts are set, for a kernel that holds one
/// moe.amax or moe.quantize, by itself or beside routing. `boundTo`: the
/// program's name for what is bound to a field of the kernel.
void emitQuantization(moe::KernelOp kernel,
                      llvm::function_ref<std::string(llvm::StringRef)> boundTo,
                      EmittedKernel &out);

/// The part of a matmul's kernel that quantizes its result.
void emitQuantizedResult(
    moe::KernelOp kernel,
    llvm::function_ref<std::string(llvm::StringRef)> boundTo,
    EmittedKernel &out);

/// The C++ policy: which values share a scale, and where it comes from.
llvm::StringRef scalingPolicy(moe::DescriptorAttr descriptor);
/// The same of a stage, whose data may be emulated.
std::string scalingPolicy(moe::QuantizeOp quantize);

/// The numbers in a scale that is given; 1 for null.
int64_t scalesOf(mlir::Value scale);

} // namespace moec::compiler

#endif // MOEC_COMPILER_EMIT_QUANTIZEEMITTER_H
