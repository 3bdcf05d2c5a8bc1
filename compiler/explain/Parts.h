//===- Parts.h - parts of the explain report --------------------*- C++ -*-===//
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

/// Adds `hardware`, `histogram` and the variants' `predictions` to the JSON of
/// a target. Adds nothing if the catalog has no row for the GPU, or if the
/// program is only a part of a layer. Returns an error if a token count is out
/// of range or the histogram does not match the layer.
Result<void> addPredictions(nlohmann::ordered_json &target,
                            moe::ProgramOp program, int64_t maxTokens,
                            const ExplainOptions &options);

/// Adds `reads` and `writes`: the names of the kernel's values without
/// duplicates, in the order in which its stages name them.
void addBuffers(nlohmann::ordered_json &json, const Kernel &kernel,
                const Target &target);

/// Returns the workspace values with their bytes and offsets in a run with the
/// given `symbols`. Values whose region cannot be evaluated are omitted.
nlohmann::ordered_json buffersJson(const Variant &variant,
                                   const Symbols &symbols);

} // namespace moec::compiler

#endif // MOEC_COMPILER_EXPLAIN_PARTS_H
