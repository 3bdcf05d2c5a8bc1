//===- Embedded.h - files inside the compiler -------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The texts that cmake/EmbedTemplates.cmake builds into the compiler: the
// kernel templates, the measured schedules and the style of pages. One binary
// needs no data files.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_PLAN_EMBEDDED_H
#define MOEC_COMPILER_PLAN_EMBEDDED_H

#include <span>
#include <string_view>

namespace moec::compiler {

struct EmbeddedFile {
  std::string_view name; ///< relative to the embedded folder, '/' separators
  std::string_view text;
};

/// templates/**.cuh, sorted by name; names are what #include says.
std::span<const EmbeddedFile> embeddedTemplates();

/// tuned/*.json, sorted by name.
std::span<const EmbeddedFile> embeddedTuned();

/// compiler/html/*.css.
std::span<const EmbeddedFile> embeddedStyles();

/// compiler/command/completion/moec.*: a script for each shell.
std::span<const EmbeddedFile> embeddedCompletions();

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_EMBEDDED_H
