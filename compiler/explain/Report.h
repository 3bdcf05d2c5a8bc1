//===- Report.h - the report of `moec explain` ------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For each target, the report has the chosen candidate, every rejected
// candidate with its code and reason, and the preferred candidate if it was
// rejected. For each token range, it has the kernels with their schedules and
// the sources of the schedules. The report only describes decisions of the
// passes: it is read from the scheduled module and the manifest.
// docs/reference/explain.md lists the fields.
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

/// Returns the report as JSON.
Result<nlohmann::ordered_json> explainJson(mlir::ModuleOp scheduled,
                                           const Manifest &manifest,
                                           const ExplainOptions &options);

/// Returns the report of a rejected layer: the message and, for each target in
/// `module`, the rejected candidates. `module` is the module after a failed
/// lower() and may be null.
nlohmann::ordered_json refusalJson(mlir::ModuleOp module,
                                   std::string_view message);

/// Returns true if, for some target, a realization was rejected only because
/// the user did not allow it.
bool waitsForLeave(const nlohmann::ordered_json &report);

/// Adds predicted times of `allowed` to each target of `report`. `allowed` is
/// the report for the same layer and token counts when the user allows the
/// realization.
void addAllowed(nlohmann::ordered_json &report,
                const nlohmann::ordered_json &allowed);

/// Returns the text of a report. The layer must not be rejected. The text ends
/// with a newline.
std::string explainText(const nlohmann::ordered_json &report);

/// Returns a short text: the layer, the choice for each target, sizes and
/// predicted times. It omits rejected candidates, weights and kernels.
std::string briefText(const nlohmann::ordered_json &report);

/// Wraps lines that are longer than `columns` at word boundaries. Continuation
/// lines are indented.
std::string wrapped(std::string_view text, size_t columns);

} // namespace moec::compiler

#endif // MOEC_COMPILER_EXPLAIN_REPORT_H
