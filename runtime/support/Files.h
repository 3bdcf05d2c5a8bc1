//===- Files.h - reading and writing files ----------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// File operations for packages, the cache and dumps: reading whole files,
// atomic writes, and folders that appear by one rename. Every error has the
// code FileSystem; its message contains the operation, the path and the
// system's reason (such as "No space left on device").
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_SUPPORT_FILES_H
#define MOEC_RUNTIME_SUPPORT_FILES_H

#include "runtime/support/Paths.h"
#include "runtime/support/Result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moec {

bool fileExists(const std::string &path);
bool isRegularFile(const std::string &path);
bool isFolder(const std::string &path);

/// Default maximum file size of readFile().
inline constexpr uint64_t kMostFileBytes = uint64_t(1) << 30;

/// Returns the whole content of a regular file. It is an error if the file is a
/// FIFO or a device, or has more than `mostBytes` bytes.
Result<std::string> readFile(const std::string &path,
                             uint64_t mostBytes = kMostFileBytes);

/// Replaces `path` atomically: writes and fsyncs a temporary file in the same
/// folder and renames it. On failure the old file remains. `mode`: mode of the
/// new file, restricted by the umask.
Result<void> writeFileAtomically(const std::string &path,
                                 std::string_view bytes, unsigned mode = 0666);

/// Writes and fsyncs a file without a rename. This is for files in a temporary
/// folder that is renamed as a whole.
Result<void> writeFile(const std::string &path, std::string_view bytes);

/// Creates a folder and its parents. Existing folders are not an error.
Result<void> createFolders(const std::string &path, unsigned mode = 0777);

/// Returns `<path>.tmp-<process>-<random>`. Callers must create the path
/// exclusively.
std::string temporaryName(std::string_view path);

/// Creates a new folder `<path>.tmp-<unique>` next to `path`, and missing
/// parent folders.
Result<std::string> createTemporaryFolderBeside(const std::string &path);

/// Fsyncs a folder, so that renames in it survive a crash.
Result<void> syncFolder(const std::string &path);

/// Calls rename(2), which replaces a file or an empty folder.
Result<void> renamePath(const std::string &from, const std::string &to);

/// Removes a file, or a folder with its content. It is not an error if the path
/// does not exist. Symbolic links are not followed.
Result<void> removeAll(const std::string &path);

/// Lists all paths below `path` that are not folders, including symbolic links.
/// The paths are relative to `path` and sorted, and have '/' as separator.
Result<std::vector<std::string>> listFiles(const std::string &path);

} // namespace moec

#endif // MOEC_RUNTIME_SUPPORT_FILES_H
