//===- KernelGraph.h - the kernels of a variant as a picture ----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Launches from top to bottom, each a card with its stages. Inputs, weights and
// outputs stand at the left. Values of the workspace leave a card at the right
// and run along a lane of their own to the cards that read them.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_HTML_KERNELGRAPH_H
#define MOEC_COMPILER_HTML_KERNELGRAPH_H

#include "compiler/html/Report.h"

namespace moec::compiler::html {

/// The schedule of a kernel in the words of the report, part by part.
std::vector<std::string> scheduleWords(const Kernel &kernel);

/// An SVG.
std::string kernelGraph(const Target &target, const Variant &variant);

} // namespace moec::compiler::html

#endif // MOEC_COMPILER_HTML_KERNELGRAPH_H
