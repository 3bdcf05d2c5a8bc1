//===- Terminal.h - colors of a terminal ------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Text is colored only on terminals, and only if NO_COLOR is not set and TERM
// is not dumb.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_SUPPORT_TERMINAL_H
#define MOEC_RUNTIME_SUPPORT_TERMINAL_H

#include <cstdio>
#include <string>
#include <string_view>

namespace moec {

enum class Color { Bold, Red, Green, Yellow };

/// Returns true if `file` is a terminal that supports colors.
bool hasColors(std::FILE *file);

/// Returns the text with color escape codes if `file` supports colors,
/// otherwise the unchanged text.
std::string colored(std::string_view text, Color color,
                    std::FILE *file = stdout);

/// Prints "PROGRAM: TEXT" and a newline to standard error.
void printError(std::string_view program, std::string_view text);

} // namespace moec

#endif // MOEC_RUNTIME_SUPPORT_TERMINAL_H
