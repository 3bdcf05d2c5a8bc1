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

/// Returns the facts of a resolved layer, one entry per realization, in the
/// order of the layer's realizations. Lists with one entry per matmul begin
/// with the first matmul.
std::vector<LayerFacts> factsOf(moe::LayerOp layer);

/// Returns the facts for the realization that the program implements.
LayerFacts factsOf(moe::ProgramOp program);

/// Returns the name of the program's realization, as factsOf() uses it.
std::string realizationOf(moe::ProgramOp program);

/// Returns the user's choices that the report records.
Choices choicesOf(moe::ReportAttr report);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_LAYERFACTS_H
