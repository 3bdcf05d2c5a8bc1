//===- ExplainPredictions.h - what a report expects -------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_EXPLAINPREDICTIONS_H
#define MOEC_COMPILER_EXPLAINPREDICTIONS_H

#include "compiler/CompileOptions.h"
#include "dialect/Moe.h"
#include "runtime/support/Result.h"

#include <nlohmann/json.hpp>

#include <string>

namespace moec::compiler {

/// Adds `hardware`, `histogram` and the `predictions` of each variant to the
/// JSON of a target. Nothing is added for a GPU without a row and for a part of
/// a layer. Errors: token counts that no run of the layer has, a histogram that
/// does not fit the layer.
Result<void> addPredictions(nlohmann::ordered_json &target,
                            moe::ProgramOp program, int64_t maxTokens,
                            const ExplainOptions &options);

/// The same as a table for people; "" where there are none.
std::string predictionsText(const nlohmann::ordered_json &target);

} // namespace moec::compiler

#endif // MOEC_COMPILER_EXPLAINPREDICTIONS_H
