//===- CacheFiles.cpp - trust in the kernel cache -------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The owner of a file is queried from an open descriptor, never from a path,
// because another file may replace the path's file between two calls.
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
// Locks
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
  // The previous holder removed the file, so another process may have locked a
  // new file at the same path.
  if (!isSameFile(file, path)) {
    file = Descriptor();
    return false;
  }
  return held = true;
}

FileLock::FileLock(std::string lockPath) : path(std::move(lockPath)) {
  // A compilation takes at most seconds. A process that holds the lock for
  // minutes is suspended, or runs on a machine that is no longer reachable.
  // Compiling a second time is then acceptable.
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
  // close() does not release the lock, because a forked child may still have
  // the descriptor open.
  ::flock(file.get(), LOCK_UN);
}

//===----------------------------------------------------------------------===//
// Owners
//===----------------------------------------------------------------------===//

Result<Descriptor> moec::runtime::openCacheFolder(const std::string &root,
                                                  const std::string &arch) {
  const Descriptor above = TRY(openFolder(root));
  return openFolderAt(above, arch, root);
}

Result<void> moec::runtime::makeCacheFolder(const std::string &root,
                                            const std::string &arch) {
  TRY(createFolders(parentFolder(root)));
  for (const std::string &path : {root, joinPath(root, arch)})
    if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST)
      return fileError("cannot create folder", path);
  TRY(openCacheFolder(root, arch));
  return {};
}

/// Returns true if this is the first call for `about` in this process.
static bool isFirstReport(const std::string &about) {
  struct Reported {
    std::mutex mutex;
    std::set<std::string> all;
  };
  auto &[mutex, all] = perProcess<Reported>();
  std::lock_guard lock(mutex);
  return all.insert(about).second;
}

void moec::runtime::reportNoFolder(const std::string &folder,
                                   const std::string &why) {
  if (isFirstReport("no folder " + folder))
    log(LogLevel::Warning,
        "kernel cache: what was compiled could not be stored ({}); the next "
        "process will compile it again. Expected a folder at {} that you may "
        "write, and no link",
        why, folder);
}

void moec::runtime::reportNotStored(const std::string &folder,
                                    const std::string &why) {
  if (isFirstReport("not stored " + folder))
    log(LogLevel::Warning,
        "kernel cache: what was compiled could not be stored in {} ({}); the "
        "next process will compile it again",
        folder, why);
}

void moec::runtime::reportForeignEntry(const std::string &entry,
                                       const std::string &why) {
  if (isFirstReport("foreign entry " + parentFolder(entry)))
    log(LogLevel::Warning,
        "kernel cache: the entry {} is not used: {}. What takes its place was "
        "compiled and could not be stored; other such entries of this folder "
        "are not reported",
        entry, why);
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
  if (!isFirstReport(folder))
    return;
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

/// Returns the names in a folder that begin with `begin` and are names of
/// damaged entries.
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
    // A modification time in the future comes from a wrong clock.
    time_t age = ::time(nullptr) - info.st_mtime;
    if (info.st_uid == ::geteuid() && (age > kWeek || age < -kDay))
      (void)static_cast<bool>(removeAll(joinPath(path, name)));
  }
}
