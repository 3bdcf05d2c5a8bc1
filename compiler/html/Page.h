//===- Page.h - the report as an HTML page ----------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The page is one file without scripts and without network access. The same
// input yields the same bytes.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_HTML_PAGE_H
#define MOEC_COMPILER_HTML_PAGE_H

#include "compiler/html/BenchFile.h"

namespace moec::compiler::html {

/// Returns the page of a report, which is the output of `moec explain --json`.
/// `bench` is an optional result of `moec-bench --json`.
Result<std::string> makePage(std::string_view report,
                             const std::optional<NamedText> &bench);

// The figures of a page.
//
// Launches are drawn from top to bottom, each as a card with its stages.
// Inputs, weights and outputs are on the left. Workspace values leave a card on
// the right and run along their own lane to the cards that read them.

/// Returns the parts of a kernel's schedule in the report's words.
std::vector<std::string> scheduleWords(const Kernel &kernel);

/// Returns an SVG of the launches of a variant.
std::string kernelGraph(const Target &target, const Variant &variant);

// One column per launch, with byte offsets from top to bottom: the rectangle of
// a value spans the launches that use it. Rectangles overlap in height only if
// memory is reused.

/// Returns an SVG of the workspace; "" for a variant without a workspace.
std::string workspaceMap(const Target &target, const Variant &variant);

/// Returns a table of the workspace values; "" if there are none.
std::string workspaceTable(const Variant &variant);

// The times of a target: over token counts with the lower bounds of memory and
// of matmuls, over arithmetic intensity as a roofline, per kernel, and as a
// table.

/// Returns one sentence: predicted times, their ratio to the lower bound, and
/// what limits them. Returns "" without predictions.
std::string headline(const Report &report, const Target &target);

/// Returns the predicted times of several targets in one chart and one table;
/// "" if fewer than two targets have predictions.
std::string comparison(const Report &report);

/// Returns the section of a target. `bench` may be null.
std::string timeSection(const Report &report, const Target &target,
                        const Bench *bench);

/// Returns an SVG of the variants over the token counts that they serve.
std::string tokenStrip(const Report &report, const Target &target);

} // namespace moec::compiler::html

#endif // MOEC_COMPILER_HTML_PAGE_H
