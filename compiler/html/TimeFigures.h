//===- TimeFigures.h - predicted and measured times -------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The times of a target: over token counts beside the floors of memory and of
// matmuls, over intensity as a roofline, by kernel, and as a table.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_HTML_TIMEFIGURES_H
#define MOEC_COMPILER_HTML_TIMEFIGURES_H

#include "compiler/html/BenchFile.h"

namespace moec::compiler::html {

/// The section of a target. `bench` may be null.
std::string timeSection(const Report &report, const Target &target,
                        const Bench *bench);

/// An SVG of the variants over the token counts that they serve.
std::string tokenStrip(const Report &report, const Target &target);

} // namespace moec::compiler::html

#endif // MOEC_COMPILER_HTML_TIMEFIGURES_H
