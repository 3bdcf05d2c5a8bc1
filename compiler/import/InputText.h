//===- InputText.h - limits of IR text --------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// MLIR's parser is recursive, uses memory after freeing it on some errors, and
// has no limits. These functions check the text first, so that no input crashes
// the process.
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
/// The maximum nesting depth of all kinds of brackets. moec prints at most 10.
inline constexpr int64_t kMostIrDepth = 64;

/// Reads the whole input; "-" is standard input. An input that is too large or
/// endless is an error.
Result<std::string> readInput(const std::string &path);

/// Checks that a text is within the limits and in the form that --emit prints.
/// Aliases are errors, because they may refer to other aliases and thereby nest
/// without brackets. Operations in MLIR's generic form and regions with several
/// blocks are errors, because MLIR's parser uses freed memory if they are
/// invalid.
Result<void> checkIrText(std::string_view text, std::string_view name);

/// Returns true if the first word after comments is one that IR can begin with:
/// module, an operation of moec, a name or an attribute.
bool looksLikeIr(std::string_view text);

/// Checks that a text is within the limits. Unlike checkIrText(), accepts every
/// form of IR.
Result<void> checkIrBounds(std::string_view text, std::string_view name);

} // namespace moec::compiler

#endif // MOEC_COMPILER_IMPORT_INPUTTEXT_H
