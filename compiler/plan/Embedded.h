//===- Embedded.h - files inside the compiler -------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Files that cmake/EmbedTemplates.cmake compiles into the compiler: the kernel
// templates, the measured schedules, the style sheets of reports and the shell
// completions. The binary therefore needs no data files.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_PLAN_EMBEDDED_H
#define MOEC_COMPILER_PLAN_EMBEDDED_H

#include <span>
#include <string_view>

namespace moec::compiler {

struct EmbeddedFile {
  /// Path relative to the embedded folder, with '/' separators.
  std::string_view name;
  std::string_view text;
};

/// Returns templates/**.cuh, sorted by name. A name is the path in an #include.
std::span<const EmbeddedFile> embeddedTemplates();

/// Returns tuned/*.json, sorted by name.
std::span<const EmbeddedFile> embeddedTuned();

/// Returns compiler/html/*.css.
std::span<const EmbeddedFile> embeddedStyles();

/// Returns compiler/command/completion/moec.*, one script per shell.
std::span<const EmbeddedFile> embeddedCompletions();

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_EMBEDDED_H
