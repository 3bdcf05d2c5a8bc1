//===- Parts.h - the parts of a report --------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_EXPLAIN_PARTS_H
#define MOEC_COMPILER_EXPLAIN_PARTS_H

#include "compiler/CompileOptions.h"
#include "dialect/Moe.h"
#include "runtime/package/Manifest.h"

#include <nlohmann/json_fwd.hpp>

namespace moec::compiler {

/// Adds `hardware`, `histogram` and the `predictions` of each variant to the
/// JSON of a target. Nothing is added for a GPU without a row and for a part of
/// a layer. Errors: token counts that no run of the layer has, a histogram that
/// does not fit the layer.
Result<void> addPredictions(nlohmann::ordered_json &target,
                            moe::ProgramOp program, int64_t maxTokens,
                            const ExplainOptions &options);

/// Adds `reads` and `writes`: names of values, each once, in the order in
/// which the kernel's stages name them.
void addBuffers(nlohmann::ordered_json &json, const Kernel &kernel,
                const Target &target);

/// The workspace's values with their bytes and offsets in a run of `symbols`;
/// a value whose place cannot be evaluated is absent.
nlohmann::ordered_json buffersJson(const Variant &variant,
                                   const Symbols &symbols);

} // namespace moec::compiler

#endif // MOEC_COMPILER_EXPLAIN_PARTS_H
