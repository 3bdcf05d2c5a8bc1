//===- Report.h - the report of `moec explain` ------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For each target the winner, every candidate that was refused with code and
// sentence, what the choice degraded from, and for each token range its kernels
// with their schedules and where those came from. Read from the scheduled
// module and the manifest that it became; the decisions themselves are made by
// passes. docs/reference/explain.md lists the fields.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_EXPLAIN_REPORT_H
#define MOEC_COMPILER_EXPLAIN_REPORT_H

#include "compiler/CompileOptions.h"
#include "runtime/package/Manifest.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>

namespace mlir {
class ModuleOp;
} // namespace mlir

namespace moec::compiler {

/// The report as data.
Result<nlohmann::ordered_json> explainJson(mlir::ModuleOp scheduled,
                                           const Manifest &manifest,
                                           const ExplainOptions &options);

/// The report of a layer that is refused: the message, and for each target of
/// `module`, which lower() has left, what was refused. `module` may be null.
nlohmann::ordered_json refusalJson(mlir::ModuleOp module,
                                   std::string_view message);

/// Returns true if a realization of the report would serve if the caller
/// allowed it.
bool waitsForLeave(const nlohmann::ordered_json &report);

/// Adds to the targets what `allowed`, the report with leave, predicts for the
/// same numbers of tokens.
void addAllowed(nlohmann::ordered_json &report,
                const nlohmann::ordered_json &allowed);

/// A report that is not a refusal, for people, ending in a newline.
std::string explainText(const nlohmann::ordered_json &report);

/// The layer, the choice for each target, sizes and predicted times: without
/// refused candidates, weights and kernels.
std::string briefText(const nlohmann::ordered_json &report);

/// Breaks lines above `columns` between words; what follows is indented.
std::string wrapped(std::string_view text, size_t columns);

} // namespace moec::compiler

#endif // MOEC_COMPILER_EXPLAIN_REPORT_H
