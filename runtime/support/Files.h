//===- Files.h - reading and writing files ----------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Packages, the cache and dumps need of a file system: whole files, writes that
// are there wholly or not at all, folders that appear by one rename. Every
// error has code FileSystem and says what was tried, the path and the system's
// reason ("No space left on device" among them).
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

/// The most bytes of a file that readFile takes where the caller says nothing.
inline constexpr uint64_t kMostFileBytes = uint64_t(1) << 30;

/// The whole content of a regular file. A FIFO, a device or a larger file is an
/// error.
Result<std::string> readFile(const std::string &path,
                             uint64_t mostBytes = kMostFileBytes);

/// Replaces `path` by one rename of a temporary file in the same folder that
/// was written and fsync'ed; a failure leaves what was there before.
/// `mode` is that of the file, less the umask.
Result<void> writeFileAtomically(const std::string &path,
                                 std::string_view bytes, unsigned mode = 0666);

/// Writes a file (no rename) and fsyncs it: for files inside a temporary
/// folder, which becomes visible as a whole.
Result<void> writeFile(const std::string &path, std::string_view bytes);

/// Creates a folder and its parents; existing ones are fine.
Result<void> createFolders(const std::string &path, unsigned mode = 0777);

/// `<path>.tmp-<process>-<random>`; whoever makes it makes it exclusively.
std::string temporaryName(std::string_view path);

/// A new folder `<path>.tmp-<unique>` beside `path` (parents are created).
Result<std::string> createTemporaryFolderBeside(const std::string &path);

/// fsync of a folder, so that renames in it survive a crash.
Result<void> syncFolder(const std::string &path);

/// rename(2); replaces a file or an empty folder.
Result<void> renamePath(const std::string &from, const std::string &to);

/// Removes a file or a folder with its content; absent is fine. No links are
/// followed.
Result<void> removeAll(const std::string &path);

/// Paths of all that is no folder below `path`, links among them, relative to
/// it, with '/', sorted.
Result<std::vector<std::string>> listFiles(const std::string &path);

} // namespace moec

#endif // MOEC_RUNTIME_SUPPORT_FILES_H
