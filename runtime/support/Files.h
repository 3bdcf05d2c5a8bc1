//===- Files.h - reading and writing files ----------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The file operations of packages, the cache and dumps: whole files, writes
// that appear completely or not at all, and folders that appear by one rename.
// Every error has the code FileSystem and contains the operation, the path and
// the system's reason (such as "No space left on device").
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

/// Returns the whole content of a regular file. A FIFO, a device or a larger
/// file is an error.
Result<std::string> readFile(const std::string &path,
                             uint64_t mostBytes = kMostFileBytes);

/// Replaces `path` by writing and fsyncing a temporary file in the same folder
/// and renaming it. On failure the old file remains. `mode` is the mode of the
/// new file, restricted by the umask.
Result<void> writeFileAtomically(const std::string &path,
                                 std::string_view bytes, unsigned mode = 0666);

/// Writes and fsyncs a file without a rename, for files inside a temporary
/// folder that becomes visible as a whole.
Result<void> writeFile(const std::string &path, std::string_view bytes);

/// Creates a folder and its parents. Existing folders are not an error.
Result<void> createFolders(const std::string &path, unsigned mode = 0777);

/// Returns `<path>.tmp-<process>-<random>`. Callers must create the path
/// exclusively.
std::string temporaryName(std::string_view path);

/// Creates a new folder `<path>.tmp-<unique>` next to `path`, and the parents.
Result<std::string> createTemporaryFolderBeside(const std::string &path);

/// Fsyncs a folder, so that renames in it survive a crash.
Result<void> syncFolder(const std::string &path);

/// Calls rename(2), which replaces a file or an empty folder.
Result<void> renamePath(const std::string &from, const std::string &to);

/// Removes a file, or a folder with its content. A path that does not exist is
/// not an error. Links are not followed.
Result<void> removeAll(const std::string &path);

/// Lists the paths of everything except folders below `path`, including links,
/// relative to `path`, with '/', sorted.
Result<std::vector<std::string>> listFiles(const std::string &path);

} // namespace moec

#endif // MOEC_RUNTIME_SUPPORT_FILES_H
