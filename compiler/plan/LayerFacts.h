//===- LayerFacts.h - a layer's facts for the resolver ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_PLAN_LAYERFACTS_H
#define MOEC_COMPILER_PLAN_LAYERFACTS_H

#include "compiler/plan/Resolver.h"
#include "dialect/Moe.h"

#include <vector>

namespace moec::compiler {

/// Returns the facts of a resolved layer, one entry for each of its
/// realizations, in their order. In lists for each matmul, the first matmul
/// comes first.
std::vector<LayerFacts> factsOf(moe::LayerOp layer);

/// Returns the facts of the realization that the program implements.
LayerFacts factsOf(moe::ProgramOp program);

/// Returns the program's realization, as a name that factsOf() uses.
std::string realizationOf(moe::ProgramOp program);

/// Returns the choices that the report records.
Choices choicesOf(moe::ReportAttr report);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_LAYERFACTS_H
