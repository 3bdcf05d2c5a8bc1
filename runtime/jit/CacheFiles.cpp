//===- CacheFiles.cpp - whom the kernel cache trusts ----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Owners are asked of what is open, never of a path: a path may name another
// file a moment later.
//
//===----------------------------------------------------------------------===//

#include "runtime/jit/CacheFiles.h"

#include "runtime/support/Files.h"
#include "runtime/support/Log.h"
#include "runtime/support/PerProcess.h"

#include <fmt/core.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <fcntl.h>
#include <mutex>
#include <set>
#include <sys/file.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

using namespace moec;
using namespace moec::runtime;

//===----------------------------------------------------------------------===//
// One writer a key
//===----------------------------------------------------------------------===//

bool FileLock::tryOnce() {
  if (!file) {
    Descriptor opened(::open(path.c_str(),
                             O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW |
                                 O_NONBLOCK | O_NOCTTY,
                             0644));
    struct stat info;
    if (!opened || ::fstat(opened.get(), &info) != 0 || !S_ISREG(info.st_mode))
      return true;
    file = std::move(opened);
  }
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0)
    return errno != EWOULDBLOCK && errno != EINTR;
  // The former holder has removed the file; another may lock its successor.
  if (!isSameFile(file, path)) {
    file = Descriptor();
    return false;
  }
  return held = true;
}

FileLock::FileLock(std::string lockPath) : path(std::move(lockPath)) {
  // A compile takes seconds at most. Whoever holds the lock for minutes is
  // stopped or on a machine that is gone, and costs a second compile.
  constexpr auto kPatience = std::chrono::seconds(120);
  auto end = std::chrono::steady_clock::now() + kPatience;
  while (!tryOnce() && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  if (held)
    slot = closeInChildren(file);
}

FileLock::~FileLock() {
  if (!held)
    return;
  keepNoMore(slot);
  ::unlink(path.c_str());
  // Not by close() alone: a forked child may still have the descriptor.
  ::flock(file.get(), LOCK_UN);
}

//===----------------------------------------------------------------------===//
// Owners
//===----------------------------------------------------------------------===//

std::string moec::runtime::foreignOwner(const Descriptor &file) {
  struct stat info;
  if (::fstat(file.get(), &info) != 0)
    return "its owner cannot be read";
  if (info.st_uid != 0 && info.st_uid != ::geteuid())
    return fmt::format("it belongs to user {}", info.st_uid);
  return "";
}

std::string moec::runtime::openToOthers(const Descriptor &file) {
  struct stat info;
  if (::fstat(file.get(), &info) != 0)
    return "its mode cannot be read";
  if (info.st_mode & (S_IWGRP | S_IWOTH))
    return fmt::format("others may write it (mode {:04o})",
                       info.st_mode & 07777);
  return "";
}

bool moec::runtime::makeCacheFolder(const std::string &root,
                                    const std::string &arch) {
  // An error shows again, as a warning, when the entry is stored.
  if (!createFolders(parentFolder(root)))
    return false;
  const std::string folder = joinPath(root, arch);
  for (const std::string &path : {root, folder})
    if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST)
      return false;
  Result<Descriptor> above = openFolder(root);
  if (!above)
    return false;
  if (Result<Descriptor> made = openFolderAt(*above, arch, root); !made) {
    log(LogLevel::Warning, "kernel cache: {}", made.error().message);
    return false;
  }
  return true;
}

void moec::runtime::reportOpenFolder(const std::string &folder) {
  Result<Descriptor> opened = openFolder(folder);
  if (!opened)
    return;
  std::string why = foreignOwner(*opened);
  if (why.empty())
    why = openToOthers(*opened);
  if (why.empty())
    return;
  struct Reported {
    std::mutex mutex;
    std::set<std::string> folders;
  };
  auto &[mutex, folders] = perProcess<Reported>();
  {
    std::lock_guard lock(mutex);
    if (!folders.insert(folder).second)
      return;
  }
  log(LogLevel::Warning,
      "kernel cache [shared-folder]: other users may write {}: {}. Entries of "
      "users other than you and root are not used. Take MOEC_CACHE_DIR of your "
      "own, or let root fill the folder and keep others from writing",
      folder, why);
}

//===----------------------------------------------------------------------===//
// Damaged entries
//===----------------------------------------------------------------------===//

static constexpr std::string_view kDamaged = ".damaged-";

/// Names in a folder that begin with `begin` and mark what was moved aside.
static std::vector<std::string> damagedIn(const Descriptor &folder,
                                          const std::string &path,
                                          const std::string &begin) {
  Result<std::vector<std::string>> names = listNamesAt(folder, path);
  if (!names)
    return {};
  std::erase_if(*names, [&](const std::string &name) {
    return !name.starts_with(begin) || name.find(kDamaged) == std::string::npos;
  });
  return std::move(*names);
}

void moec::runtime::moveAside(const std::string &entry,
                              const std::string &why) {
  const std::string parent = parentFolder(entry);
  if (Result<Descriptor> folder = openFolder(parent))
    for (const std::string &name :
         damagedIn(*folder, parent,
                   entry.substr(entry.rfind('/') + 1) + std::string(kDamaged)))
      (void)static_cast<bool>(removeAll(joinPath(parent, name)));
  static std::atomic<unsigned> counter = 0;
  std::string aside =
      fmt::format("{}{}{}-{}", entry, kDamaged, ::getpid(), counter++);
  if (auto moved = renamePath(entry, aside); !moved) {
    log(LogLevel::Warning,
        "kernel cache: the entry {} is damaged ({}) and could not be moved "
        "aside ({}); compiling again",
        entry, why, moved.error().message);
    return;
  }
  ::utimensat(AT_FDCWD, aside.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
  log(LogLevel::Warning,
      "kernel cache: the entry {} is damaged ({}); it was moved to {} and is "
      "built again",
      entry, why, aside);
}

void moec::runtime::removeOldDamaged(const std::string &path) {
  constexpr time_t kDay = 24 * 3600, kWeek = 7 * kDay;
  Result<Descriptor> folder = openFolder(path);
  if (!folder)
    return;
  for (const std::string &name : damagedIn(*folder, path, "")) {
    struct stat info;
    if (::fstatat(folder->get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0)
      continue;
    // A time in the future is a clock's that was wrong.
    time_t age = ::time(nullptr) - info.st_mtime;
    if (info.st_uid == ::geteuid() && (age > kWeek || age < -kDay))
      (void)static_cast<bool>(removeAll(joinPath(path, name)));
  }
}
