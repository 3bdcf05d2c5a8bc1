//===- RoutingEmitter.h - how a kernel routes -------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The fields and members by which a kernel routes tokens (routing/token.cuh):
// the same in the kernel that does nothing else and in those of a few tokens.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_EMIT_ROUTINGEMITTER_H
#define MOEC_COMPILER_EMIT_ROUTINGEMITTER_H

#include "compiler/emit/EmittedKernel.h"

namespace moec::compiler {

/// Adds a field for each operand of a stage that routes, and the number of
/// tokens. `boundTo`: the program's name of a field's value.
void addRoutingFields(moe::StageOpInterface stage,
                      llvm::function_ref<std::string(llvm::StringRef)> boundTo,
                      ArgumentLayout &arguments);

/// Adds the policies, and what a method has besides them.
void addRoutingConfig(moe::RouteOp route, ConfigPrinter &config);

} // namespace moec::compiler

#endif // MOEC_COMPILER_EMIT_ROUTINGEMITTER_H
