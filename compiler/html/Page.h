//===- Page.h - the report as a page of HTML --------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One file without scripts, without the network, and the same bytes for the
// same input.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_HTML_PAGE_H
#define MOEC_COMPILER_HTML_PAGE_H

#include "compiler/html/BenchFile.h"

namespace moec::compiler::html {

/// The page of a report, which is the text of `moec explain --json`. `bench`,
/// which may be absent, is a result of `moec-bench --json`.
Result<std::string> makePage(std::string_view report,
                             const std::optional<NamedText> &bench);

// The figures of a page.
//
// Launches from top to bottom, each a card with its stages. Inputs, weights and
// outputs stand at the left. Values of the workspace leave a card at the right
// and run along a lane of their own to the cards that read them.

/// The schedule of a kernel in the words of the report, part by part.
std::vector<std::string> scheduleWords(const Kernel &kernel);

/// An SVG.
std::string kernelGraph(const Target &target, const Variant &variant);

// A column for each launch, bytes from top to bottom: a value's rectangle spans
// the launches that need it. Rectangles touch only where memory is used anew.

/// An SVG; "" of a variant without a workspace.
std::string workspaceMap(const Target &target, const Variant &variant);

/// Its values as a table; "" without any.
std::string workspaceTable(const Variant &variant);

// The times of a target: over token counts beside the floors of memory and of
// matmuls, over intensity as a roofline, by kernel, and as a table.

/// One sentence: predicted times, how far they are above the floor, and what
/// bounds them. "" without predictions.
std::string headline(const Report &report, const Target &target);

/// The predicted times of several targets in one chart and one table; "" of a
/// report with fewer than two that have predictions.
std::string comparison(const Report &report);

/// The section of a target. `bench` may be null.
std::string timeSection(const Report &report, const Target &target,
                        const Bench *bench);

/// An SVG of the variants over the token counts that they serve.
std::string tokenStrip(const Report &report, const Target &target);

} // namespace moec::compiler::html

#endif // MOEC_COMPILER_HTML_PAGE_H
