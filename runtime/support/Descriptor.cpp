//===- Descriptor.cpp - an open file that closes itself -------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// O_NONBLOCK prevents open(2) from waiting for the writer of a FIFO. The flag
// has no effect on regular files.
//
//===----------------------------------------------------------------------===//

#include "runtime/support/Descriptor.h"

#include "runtime/support/Paths.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <memory>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace moec;

static constexpr int kRead = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
/// Maximum nesting depth of folders. It exceeds the depth of any package.
static constexpr size_t kDeepest = 64;

Descriptor::~Descriptor() {
  if (number >= 0)
    ::close(number);
}

/// The registered descriptors plus one; 0 marks a free slot. The elements are
/// atomics because the forked child may only use async-signal-safe operations.
static std::array<std::atomic<int>, 1024> keptFromChildren;

static void closeInChild() {
  for (std::atomic<int> &kept : keptFromChildren)
    if (int number = kept.exchange(0); number != 0)
      ::close(number - 1);
}

int moec::closeInChildren(const Descriptor &file) {
  static const int registered =
      ::pthread_atfork(nullptr, nullptr, closeInChild);
  (void)registered;
  for (size_t slot = 0; slot < keptFromChildren.size(); ++slot)
    if (int none = 0;
        keptFromChildren[slot].compare_exchange_strong(none, file.get() + 1))
      return static_cast<int>(slot);
  return -1;
}

void moec::keepNoMore(int slot) {
  if (slot >= 0)
    keptFromChildren[static_cast<size_t>(slot)] = 0;
}

static std::string_view kindOf(mode_t mode) {
  return S_ISFIFO(mode)   ? "a FIFO"
         : S_ISSOCK(mode) ? "a socket"
         : S_ISLNK(mode)  ? "a link"
                          : "a device";
}

/// Takes ownership of a descriptor that was opened for `shown`. Returns an
/// error if it is not a regular file.
static Result<Descriptor> regular(int number, const std::string &shown) {
  if (number < 0)
    return fileError("cannot open", shown);
  Descriptor file(number);
  struct stat info;
  if (::fstat(number, &info) != 0)
    return fileError("cannot read", shown);
  if (S_ISDIR(info.st_mode)) {
    errno = EISDIR;
    return fileError("cannot read", shown);
  }
  if (!S_ISREG(info.st_mode))
    return Error(ErrorCode::FileSystem,
                 "'{}': expected a regular file, found {}", shown,
                 kindOf(info.st_mode));
  return file;
}

Result<Descriptor> moec::openFolder(const std::string &path) {
  int number = ::open(path.c_str(), kRead | O_DIRECTORY);
  if (number < 0)
    return fileError("cannot open folder", path);
  return Descriptor(number);
}

Result<Descriptor> moec::openRegular(const std::string &path) {
  return regular(::open(path.c_str(), kRead | O_NOCTTY), path);
}

/// Opens `path` below `folder` with `flags`. No component of the path may be a
/// symbolic link.
static int openBelow(const Descriptor &folder, std::string_view path,
                     int flags) {
  Descriptor parent;
  int at = folder.get();
  for (size_t slash; (slash = path.find('/')) != std::string_view::npos;
       path.remove_prefix(slash + 1)) {
    std::string name(path.substr(0, slash));
    Descriptor next(
        ::openat(at, name.c_str(), kRead | O_NOFOLLOW | O_DIRECTORY));
    if (!next)
      return -1;
    parent = std::move(next);
    at = parent.get();
  }
  return ::openat(at, std::string(path).c_str(), flags | O_NOFOLLOW);
}

Result<Descriptor> moec::openFolderAt(const Descriptor &folder,
                                      const std::string &path,
                                      const std::string &shown) {
  int number = openBelow(folder, path, kRead | O_DIRECTORY);
  if (number < 0)
    return fileError("cannot open folder", joinPath(shown, path));
  return Descriptor(number);
}

Result<Descriptor> moec::openRegularAt(const Descriptor &folder,
                                       const std::string &path,
                                       const std::string &shown) {
  std::string full = joinPath(shown, path);
  int number = openBelow(folder, path, kRead | O_NOCTTY);
  if (number < 0 && errno == ELOOP)
    return Error(ErrorCode::FileSystem,
                 "'{}': expected a regular file, found a link", full);
  return regular(number, full);
}

Result<std::string> moec::readAll(const Descriptor &file, uint64_t mostBytes,
                                  const std::string &shown) {
  auto tooLarge = [&](uint64_t bytes) {
    return Error(ErrorCode::FileSystem,
                 "'{}': expected at most {} bytes, got {}", shown, mostBytes,
                 bytes);
  };
  std::string bytes;
  struct stat info;
  if (::fstat(file.get(), &info) == 0 && info.st_size > 0) {
    if (static_cast<uint64_t>(info.st_size) > mostBytes)
      return tooLarge(static_cast<uint64_t>(info.st_size));
    bytes.reserve(static_cast<size_t>(info.st_size));
  }
  char buffer[65536];
  while (true) {
    ssize_t count = ::read(file.get(), buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return fileError("cannot read", shown);
    if (count == 0)
      return bytes;
    // The size is checked during reading, because a file may grow and files in
    // /proc report no size.
    if (bytes.size() + static_cast<size_t>(count) > mostBytes)
      return tooLarge(bytes.size() + static_cast<size_t>(count));
    bytes.append(buffer, static_cast<size_t>(count));
  }
}

Result<std::vector<std::string>> moec::listNamesAt(const Descriptor &folder,
                                                   const std::string &shown) {
  // The read position belongs to the open file description and may have
  // advanced, so the folder is opened again.
  int copy = ::openat(folder.get(), ".", kRead | O_DIRECTORY);
  DIR *opened = copy < 0 ? nullptr : ::fdopendir(copy);
  if (!opened) {
    Error error = fileError("cannot list folder", shown);
    if (copy >= 0)
      ::close(copy);
    return error;
  }
  std::unique_ptr<DIR, int (*)(DIR *)> guard(opened, ::closedir);
  std::vector<std::string> names;
  while (true) {
    errno = 0;
    const dirent *entry = ::readdir(opened);
    if (!entry)
      break;
    std::string_view name = entry->d_name;
    if (name != "." && name != "..")
      names.emplace_back(name);
  }
  if (errno != 0)
    return fileError("cannot list folder", shown);
  std::sort(names.begin(), names.end());
  return names;
}

static Result<void> listInto(const Descriptor &folder, const std::string &shown,
                             const std::string &prefix, size_t depth,
                             std::vector<std::string> &files) {
  if (depth > kDeepest)
    return Error(ErrorCode::FileSystem,
                 "'{}': expected at most {} folders in each other", shown,
                 kDeepest);
  std::vector<std::string> names = TRY(listNamesAt(folder, shown));
  for (const std::string &name : names) {
    std::string path = prefix.empty() ? name : prefix + "/" + name;
    struct stat info;
    if (::fstatat(folder.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0)
      return fileError("cannot read", joinPath(shown, path));
    if (!S_ISDIR(info.st_mode)) {
      files.push_back(std::move(path));
      continue;
    }
    Descriptor below = TRY(openFolderAt(folder, name, shown));
    TRY(listInto(below, joinPath(shown, name), path, depth + 1, files));
  }
  return {};
}

Result<std::vector<std::string>> moec::listFilesAt(const Descriptor &folder,
                                                   const std::string &shown) {
  std::vector<std::string> files;
  TRY(listInto(folder, shown, "", 0, files));
  std::sort(files.begin(), files.end());
  return files;
}

static bool isSame(const struct stat &a, const struct stat &b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

bool moec::isSameFile(const Descriptor &file, const Descriptor &other) {
  struct stat a, b;
  return ::fstat(file.get(), &a) == 0 && ::fstat(other.get(), &b) == 0 &&
         isSame(a, b);
}

bool moec::isSameFile(const Descriptor &file, const std::string &path) {
  struct stat a, b;
  return ::fstat(file.get(), &a) == 0 && ::lstat(path.c_str(), &b) == 0 &&
         isSame(a, b);
}

std::string moec::foreignOwner(const Descriptor &file) {
  struct stat info;
  if (::fstat(file.get(), &info) != 0)
    return "its owner cannot be read";
  if (info.st_uid != 0 && info.st_uid != ::geteuid())
    return fmt::format("it belongs to user {}", info.st_uid);
  return "";
}

std::string moec::openToOthers(const Descriptor &file) {
  struct stat info;
  if (::fstat(file.get(), &info) != 0)
    return "its mode cannot be read";
  if (info.st_mode & (S_IWGRP | S_IWOTH))
    return fmt::format("others may write it (mode {:04o})",
                       info.st_mode & 07777);
  return "";
}
