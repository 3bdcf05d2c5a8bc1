//===- WorkspaceMap.h - the workspace over launches -------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A column for each launch, bytes from top to bottom: a value's rectangle spans
// the launches that need it. Rectangles touch only where memory is used anew.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_HTML_WORKSPACEMAP_H
#define MOEC_COMPILER_HTML_WORKSPACEMAP_H

#include "compiler/html/Report.h"

namespace moec::compiler::html {

/// An SVG; "" of a variant without a workspace.
std::string workspaceMap(const Target &target, const Variant &variant);

/// Its values as a table; "" without any.
std::string workspaceTable(const Variant &variant);

} // namespace moec::compiler::html

#endif // MOEC_COMPILER_HTML_WORKSPACEMAP_H
