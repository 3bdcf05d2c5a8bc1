//===- Files.cpp - reading and writing files ------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Uses POSIX calls, because std::filesystem hides errno and has no fsync.
//
//===----------------------------------------------------------------------===//

#include "runtime/support/Files.h"

#include "runtime/support/Descriptor.h"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <fmt/core.h>
#include <random>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

using namespace moec;
namespace fs = std::filesystem;

static Error codeError(std::string_view what, std::string_view path,
                       const std::error_code &code) {
  return {ErrorCode::FileSystem, "{} '{}': {}", what, path, code.message()};
}

bool moec::fileExists(const std::string &path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0;
}

bool moec::isRegularFile(const std::string &path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

bool moec::isFolder(const std::string &path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

Result<std::string> moec::readFile(const std::string &path,
                                   uint64_t mostBytes) {
  Descriptor file = TRY(openRegular(path));
  return readAll(file, mostBytes, path);
}

/// Writes, fsyncs and closes a file. On failure, returns false and sets errno
/// to the first error.
static bool writeAndClose(int file, std::string_view bytes) {
  int failure = 0;
  while (!bytes.empty()) {
    ssize_t count = ::write(file, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0) {
      failure = errno;
      break;
    }
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  if (!failure && ::fsync(file) != 0)
    failure = errno;
  // close() reports delayed write errors of network file systems.
  if (::close(file) != 0 && !failure)
    failure = errno;
  errno = failure;
  return failure == 0;
}

Result<void> moec::writeFile(const std::string &path, std::string_view bytes) {
  int file =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0)
    return fileError("cannot create", path);
  if (!writeAndClose(file, bytes))
    return fileError("cannot write", path);
  return {};
}

/// Returns the error for a path that could not be created. If the parent folder
/// is not a folder in which files can be created, the message mentions it.
static Error cannotMake(std::string_view what, const std::string &path) {
  Error error = fileError(what, path);
  const std::string folder = parentFolder(path);
  error.message += isFolder(folder)
                       ? fmt::format("; expected that '{}' is a folder in "
                                     "which this user may write",
                                     folder)
                       : fmt::format("; expected a folder at '{}'", folder);
  return error;
}

std::string moec::temporaryName(std::string_view path) {
  static thread_local std::mt19937_64 random{std::random_device{}()};
  return fmt::format("{}.tmp-{}-{:016x}", path, ::getpid(), random());
}

Result<void> moec::writeFileAtomically(const std::string &path,
                                       std::string_view bytes, unsigned mode) {
  // mkostemp is not used because it creates files that only the owner can read,
  // and the umask that would be needed to correct this cannot be queried
  // without a race.
  std::string temporary;
  int file = -1;
  do {
    temporary = temporaryName(path);
    file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                  mode);
  } while (file < 0 && errno == EEXIST);
  if (file < 0)
    return cannotMake("cannot create a temporary file for", path);
  if (!writeAndClose(file, bytes)) {
    Error error = fileError("cannot write", path);
    ::unlink(temporary.c_str());
    return error;
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    Error error = fileError("cannot rename a temporary file to", path);
    if (isFolder(path))
      error.message += "; expected the path of a file";
    ::unlink(temporary.c_str());
    return error;
  }
  return syncFolder(parentFolder(path));
}

Result<void> moec::createFolders(const std::string &path, unsigned mode) {
  // Existing folders keep their mode. Failures are reported by
  // create_directories below.
  for (size_t slash = path.find('/', 1); mode != 0777;
       slash = path.find('/', slash + 1)) {
    ::mkdir(path.substr(0, slash).c_str(), mode);
    if (slash == std::string::npos)
      break;
  }
  std::error_code code;
  fs::create_directories(path, code);
  if (code)
    return codeError("cannot create folder", path, code);
  if (!isFolder(path))
    return Error(ErrorCode::FileSystem,
                 "expected a folder at '{}', found a file", path);
  return {};
}

Result<std::string> moec::createTemporaryFolderBeside(const std::string &path) {
  std::string_view bare = path;
  while (bare.size() > 1 && bare.back() == '/')
    bare.remove_suffix(1);
  TRY(createFolders(parentFolder(bare)));
  std::string folder;
  int status = 0;
  do {
    folder = temporaryName(bare);
    status = ::mkdir(folder.c_str(), 0777);
  } while (status != 0 && errno == EEXIST);
  if (status != 0)
    return cannotMake("cannot create a temporary folder for", path);
  return folder;
}

Result<void> moec::syncFolder(const std::string &path) {
  int folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0)
    return fileError("cannot open folder", path);
  // Some file systems do not support fsync on folders (EINVAL). The rename has
  // taken place nevertheless.
  bool failed = ::fsync(folder) != 0 && errno != EINVAL && errno != EROFS;
  Error error;
  if (failed)
    error = fileError("cannot sync folder", path);
  ::close(folder);
  if (failed)
    return error;
  return {};
}

Result<void> moec::renamePath(const std::string &from, const std::string &to) {
  if (::rename(from.c_str(), to.c_str()) != 0)
    return fileError(fmt::format("cannot rename '{}' to", from), to);
  return {};
}

Result<void> moec::removeAll(const std::string &path) {
  std::error_code code;
  fs::remove_all(path, code);
  if (code)
    return codeError("cannot remove", path, code);
  return {};
}

Result<std::vector<std::string>> moec::listFiles(const std::string &path) {
  Descriptor folder = TRY(openFolder(path));
  return listFilesAt(folder, path);
}
