//===- Passes.h - the passes of the compiler -------------------*- C++ -*--===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Declares createXPass() and its options for each pass of Passes.td.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_PASSES_PASSES_H
#define MOEC_COMPILER_PASSES_PASSES_H

#include "dialect/Moe.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace moec::compiler {

#define GEN_PASS_DECL
#include "compiler/passes/Passes.h.inc"

} // namespace moec::compiler

#endif // MOEC_COMPILER_PASSES_PASSES_H
