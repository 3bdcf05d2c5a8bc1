//===- LayerFacts.h - what the resolver asks of a layer ---------*- C++ -*-===//
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

/// The layer, which must be resolved, as each of its realizations computes it,
/// in their order. Facts of the first of its two matmuls come first.
std::vector<LayerFacts> factsOf(moe::LayerOp layer);

/// Facts of the realization that the program is.
LayerFacts factsOf(moe::ProgramOp program);

/// The program's realization, as one of factsOf() calls it.
std::string realizationOf(moe::ProgramOp program);

/// Choices that a report keeps.
Choices choicesOf(moe::ReportAttr report);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_LAYERFACTS_H
