//===- Paths.h - paths as strings -------------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Joins and splits paths without accessing the file system, and formats file
// errors.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_SUPPORT_PATHS_H
#define MOEC_RUNTIME_SUPPORT_PATHS_H

#include "runtime/support/Result.h"

#include <string>
#include <string_view>

namespace moec {

/// Returns an error with code FileSystem and message `<what> '<path>': <text of
/// errno>`.
Error fileError(std::string_view what, std::string_view path);

/// Returns the joined path: "a/b" + "c" = "a/b/c"; "" + "c" = "c".
std::string joinPath(std::string_view folder, std::string_view name);
/// Returns everything before the last '/', or "." if there is no '/'.
std::string parentFolder(std::string_view path);

/// Returns true if `path` is relative, stays inside its folder and is
/// normalized: no empty component, no "." or "..", no backslash, no NUL.
bool isContainedPath(std::string_view path);

} // namespace moec

#endif // MOEC_RUNTIME_SUPPORT_PATHS_H
