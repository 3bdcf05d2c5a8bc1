//===- StagedFolder.cpp - a folder that appears atomically ----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// If flock is not supported, no temporary folder is considered abandoned.
//
//===----------------------------------------------------------------------===//

#include "runtime/support/StagedFolder.h"

#include "runtime/support/Files.h"
#include "runtime/support/Log.h"

#include <cerrno>
#include <fcntl.h>
#include <fmt/core.h>
#include <stdio.h> // renameat2
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace moec;

static std::string withoutSlashes(std::string path) {
  while (path.size() > 1 && path.back() == '/')
    path.pop_back();
  return path;
}

static std::string nameOf(const std::string &path) {
  return path.substr(path.rfind('/') + 1);
}

/// Returns true if `name` is a possible result of temporaryName(`of`).
static bool isTemporaryName(std::string_view name, std::string_view of) {
  if (name.substr(0, of.size()) != of)
    return false;
  name.remove_prefix(of.size());
  constexpr std::string_view kMark = ".tmp-";
  if (name.substr(0, kMark.size()) != kMark)
    return false;
  name.remove_prefix(kMark.size());
  size_t dash = name.find('-');
  return dash != std::string_view::npos && dash > 0 &&
         name.find_first_not_of("0123456789") == dash &&
         name.size() == dash + 17 &&
         name.find_first_not_of("0123456789abcdef", dash + 1) ==
             std::string_view::npos;
}

/// Opens and locks a folder. Returns an empty descriptor if another process
/// holds the lock, if the folder no longer exists, or if folders cannot be
/// locked.
static Descriptor lockFolder(const std::string &path) {
  Descriptor folder(
      ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder || ::flock(folder.get(), LOCK_EX | LOCK_NB) != 0 ||
      !isSameFile(folder, path))
    return {};
  return folder;
}

void moec::removeAbandoned(const std::string &target) {
  std::string path = withoutSlashes(target), name = nameOf(path);
  std::string parent = parentFolder(path);
  Result<Descriptor> folder = openFolder(parent);
  if (!folder)
    return;
  Result<std::vector<std::string>> names = listNamesAt(*folder, parent);
  if (!names)
    return;
  for (const std::string &candidate : *names) {
    if (!isTemporaryName(candidate, name))
      continue;
    std::string full = joinPath(parent, candidate);
    struct stat info;
    Descriptor lock = lockFolder(full);
    if (lock && ::fstat(lock.get(), &info) == 0 && info.st_uid == ::geteuid())
      (void)static_cast<bool>(removeAll(full));
  }
}

Result<StagedFolder> StagedFolder::create(const std::string &target,
                                          unsigned mode) {
  StagedFolder staged;
  staged.target = withoutSlashes(target);
  std::string name = nameOf(staged.target);
  if (name.empty() || name == "." || name == "..")
    return Error(ErrorCode::FileSystem,
                 "expected a path that ends in the folder's name, got '{}'",
                 target);
  TRY(createFolders(parentFolder(staged.target)));
  removeAbandoned(staged.target);
  while (true) {
    std::string path = temporaryName(staged.target);
    if (::mkdir(path.c_str(), mode) != 0) {
      if (errno == EEXIST)
        continue;
      return Error(
          ErrorCode::FileSystem,
          "{}; expected that '{}' is a folder in which this user may "
          "write",
          fileError("cannot create a temporary folder for", target).message,
          parentFolder(staged.target));
    }
    staged.lock = lockFolder(path);
    // Before the folder was locked, another writer may have considered it
    // abandoned and removed it.
    if (!staged.lock && !fileExists(path))
      continue;
    staged.temporary = std::move(path);
    return staged;
  }
}

StagedFolder::~StagedFolder() {
  if (!temporary.empty())
    (void)static_cast<bool>(removeAll(temporary));
}

Result<void> StagedFolder::publish() {
  TRY(renamePath(temporary, target));
  temporary.clear();
  return {};
}

/// Removes the old folder after the replacement. The new folder is already in
/// place, so a failure only leaves an unneeded folder.
static void removeOld(const std::string &path) {
  if (Result<void> removed = removeAll(path); !removed && fileExists(path))
    log(LogLevel::Warning, "the old folder was replaced and is left at {}: {}",
        path, removed.error().message);
}

Result<void> StagedFolder::replace() {
  // rename(2) replaces an empty folder, but not a folder with content.
  if (::rename(temporary.c_str(), target.c_str()) == 0) {
    temporary.clear();
    return {};
  }
  auto failed = [&] {
    return fileError(fmt::format("cannot rename '{}' to", temporary), target);
  };
  if (errno != ENOTEMPTY && errno != EEXIST)
    return failed();
  std::string old = temporary;
  if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, target.c_str(),
                  RENAME_EXCHANGE) != 0) {
    if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP)
      return failed();
    old = temporaryName(target);
    TRY(renamePath(target, old));
    if (::rename(temporary.c_str(), target.c_str()) != 0) {
      Error error = failed();
      (void)static_cast<bool>(renamePath(old, target));
      return error;
    }
  }
  temporary.clear();
  removeOld(old);
  return {};
}
