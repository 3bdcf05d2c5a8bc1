//===- Page.h - the report as an HTML page ----------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The page is one file, without scripts and without network access. Equal
// inputs yield equal bytes.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_HTML_PAGE_H
#define MOEC_COMPILER_HTML_PAGE_H

#include "compiler/html/BenchFile.h"

namespace moec::compiler::html {

/// Returns the page for `report`, the output of `moec explain --json`. `bench`
/// is the result of `moec-bench --json`, or nullopt.
Result<std::string> makePage(std::string_view report,
                             const std::optional<NamedText> &bench);

// The figures of a page.
//
// The kernel graph shows launches from top to bottom, each as a card with its
// stages. Inputs, weights and outputs are on the left of a card. Workspace
// values are on the right; a separate vertical line connects each value's
// writer with the cards that read it.

/// Returns the words that describe a kernel's schedule, such as "tile
/// 64x128x64".
std::vector<std::string> scheduleWords(const Kernel &kernel);

/// Returns an SVG of the variant's launches.
std::string kernelGraph(const Target &target, const Variant &variant);

// The workspace map has one column per launch, and byte offsets from top to
// bottom. The rectangle of a value spans the launches that use the value.
// Rectangles at the same height share memory.

/// Returns an SVG of the workspace, or "" for a variant without workspace.
std::string workspaceMap(const Target &target, const Variant &variant);

/// Returns a table of the workspace values, or "" if there are none.
std::string workspaceTable(const Variant &variant);

// The time section shows a target's times over token counts with lower bounds
// for memory and matmuls, over arithmetic intensity as a roofline, per kernel,
// and as a table.

/// Returns a sentence with the predicted times, their ratio to the lower bound,
/// and what limits them. Returns "" without predictions.
std::string headline(const Report &report, const Target &target);

/// Returns the predicted times of several targets in a chart and a table, or ""
/// if fewer than two targets have predictions.
std::string comparison(const Report &report);

/// Returns the time section of a target. `bench` may be null.
std::string timeSection(const Report &report, const Target &target,
                        const Bench *bench);

/// Returns an SVG that shows the variants along an axis of token counts.
std::string tokenStrip(const Report &report, const Target &target);

} // namespace moec::compiler::html

#endif // MOEC_COMPILER_HTML_PAGE_H
