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

} // namespace moec::compiler::html

#endif // MOEC_COMPILER_HTML_PAGE_H
