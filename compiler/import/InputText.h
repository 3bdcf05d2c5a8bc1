//===- InputText.h - what the parser of IR may be given ---------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// MLIR's parser recurses, keeps what failed in use, and has no bound. What it
// is given is bounded here first, so that no text ends the process.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_IMPORT_INPUTTEXT_H
#define MOEC_COMPILER_IMPORT_INPUTTEXT_H

#include "runtime/support/Result.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace moec::compiler {

inline constexpr int64_t kMostInputBytes = int64_t(64) << 20;
inline constexpr int64_t kMostIrBytes = int64_t(16) << 20;
inline constexpr int64_t kMostIrLines = 200000;
/// The deepest nesting of brackets of all kinds. moec prints 10 at most.
inline constexpr int64_t kMostIrDepth = 64;

/// The whole input; "-" is standard input. One that is larger, or never ends,
/// is refused.
Result<std::string> readInput(const std::string &path);

/// Checks that a text may be one that --emit printed: bounded, and in moec's
/// own form. An alias may stand for another and so nest without a bracket;
/// operations in MLIR's generic form and regions with several blocks are read
/// by code that leaves freed memory in use where they are wrong.
Result<void> checkIrText(std::string_view text, std::string_view name);

/// Whether the first word of a text, behind comments, is one that IR begins
/// with: module, an operation of moec, a name or an attribute.
bool looksLikeIr(std::string_view text);

/// The bounds alone.
Result<void> checkIrBounds(std::string_view text, std::string_view name);

} // namespace moec::compiler

#endif // MOEC_COMPILER_IMPORT_INPUTTEXT_H
