//===- LayerFacts.h - what the resolver asks of a program -------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_PLAN_LAYERFACTS_H
#define MOEC_COMPILER_PLAN_LAYERFACTS_H

#include "compiler/plan/Resolver.h"
#include "dialect/Moe.h"

namespace moec::compiler {

/// The facts of a program whose stages are not in variants yet. Those of the
/// first of its two matmuls come first.
LayerFacts factsOf(moe::ProgramOp program);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_LAYERFACTS_H
