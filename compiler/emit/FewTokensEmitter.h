//===- FewTokensEmitter.h - the two kernels of few tokens -------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Text and stages of route_gate_up and down_combine.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_EMIT_FEWTOKENSEMITTER_H
#define MOEC_COMPILER_EMIT_FEWTOKENSEMITTER_H

#include "compiler/emit/EmittedKernel.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace moec::compiler {

/// Completes `out`, whose common parts are set, for a kernel that routes and
/// multiplies. `boundTo`: the program's name for what is bound to a field.
void emitFewTokens(moe::KernelOp kernel,
                   llvm::function_ref<std::string(llvm::StringRef)> boundTo,
                   EmittedKernel &out);

} // namespace moec::compiler

#endif // MOEC_COMPILER_EMIT_FEWTOKENSEMITTER_H
