//===- CacheEntries.cpp - size of the kernel cache ------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/jit/CacheEntries.h"

#include "runtime/jit/CacheFiles.h"
#include "runtime/support/Bytes.h"
#include "runtime/support/Files.h"
#include "runtime/support/Log.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace moec;
using namespace moec::runtime;

/// Returns true if `name` has the form "<kernel>-<16 hexadecimal digits>".
/// Folders that were renamed as damaged, or that are being written, have a dot
/// in their names.
static bool isEntryName(const std::string &name) {
  constexpr size_t kDigits = 16;
  if (name.find('.') != std::string::npos || name.size() <= kDigits + 1 ||
      name[name.size() - kDigits - 1] != '-')
    return false;
  return std::all_of(name.end() - kDigits, name.end(),
                     [](unsigned char c) { return std::isxdigit(c) != 0; });
}

/// Sets `bytes` and `isWhole` of an entry according to the files in its folder.
static void measure(const Descriptor &folder, const std::string &shown,
                    CacheEntry &entry) {
  Result<std::vector<std::string>> files = listFilesAt(folder, shown);
  if (!files)
    return;
  size_t needed = 0;
  for (const std::string &file : *files) {
    struct stat info;
    if (::fstatat(folder.get(), file.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0)
      continue;
    entry.bytes += static_cast<uint64_t>(info.st_size);
    needed += file == "recipe.json" || file == "kernel.cubin";
  }
  entry.isWhole = isEntryName(entry.name) && needed == 2;
}

Result<std::vector<CacheEntry>>
moec::runtime::listCache(const std::string &root) {
  std::vector<CacheEntry> entries;
  if (::access(root.c_str(), F_OK) != 0 && errno == ENOENT)
    return entries;
  Descriptor top = TRY(openFolder(root));
  for (const std::string &arch : TRY(listNamesAt(top, root))) {
    // The cache root also contains the user's tuned schedules, which are not
    // cache entries.
    if (!arch.starts_with("sm_"))
      continue;
    Result<Descriptor> folder = openCacheFolder(root, arch);
    if (!folder)
      continue;
    const std::string path = joinPath(root, arch);
    for (const std::string &name : TRY(listNamesAt(*folder, path))) {
      struct stat info;
      if (::fstatat(folder->get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) !=
              0 ||
          !S_ISDIR(info.st_mode))
        continue;
      CacheEntry entry = {arch, name};
      entry.used = info.st_mtime;
      entry.isOwn = info.st_uid == ::geteuid();
      if (Result<Descriptor> inside = openFolderAt(*folder, name, path))
        measure(*inside, joinPath(path, name), entry);
      entries.push_back(std::move(entry));
    }
  }
  std::ranges::stable_sort(entries, {}, &CacheEntry::used);
  return entries;
}

Result<void> moec::runtime::removeCacheEntry(const std::string &root,
                                             const CacheEntry &entry) {
  static std::atomic<unsigned> counter = 0;
  const std::string folder = joinPath(root, entry.arch);
  const std::string path = joinPath(folder, entry.name);
  const std::string aside =
      joinPath(folder, fmt::format(".removed-{}-{}", ::getpid(), counter++));
  {
    const FileLock lock(path + ".lock");
    if (!fileExists(path))
      return {};
    TRY(renamePath(path, aside));
  }
  return removeAll(aside);
}

std::vector<CacheEntry>
moec::runtime::entriesAbove(const std::vector<CacheEntry> &entries,
                            uint64_t bytes) {
  uint64_t kept = 0;
  for (const CacheEntry &entry : entries)
    kept += entry.bytes;
  std::vector<CacheEntry> removed;
  for (const CacheEntry &entry : entries) {
    if (kept <= bytes)
      break;
    if (!entry.isOwn || !entry.isWhole)
      continue;
    kept -= entry.bytes;
    removed.push_back(entry);
  }
  return removed;
}

void moec::runtime::boundCache(const std::string &root, uint64_t bytes) {
  const Result<std::vector<CacheEntry>> entries = listCache(root);
  if (!entries) {
    log(LogLevel::Warning, "kernel cache: {}", entries.error().message);
    return;
  }
  uint64_t used = 0;
  for (const CacheEntry &entry : *entries)
    used += entry.bytes;
  if (used <= bytes)
    return;
  // Removes 10 % more than necessary, so that the next loads do not have to
  // remove entries again.
  const std::vector<CacheEntry> removed =
      entriesAbove(*entries, bytes - bytes / 10);
  for (const CacheEntry &entry : removed)
    if (const Result<void> done = removeCacheEntry(root, entry); !done) {
      log(LogLevel::Warning, "kernel cache: {}", done.error().message);
      return;
    }
  log(LogLevel::Info,
      "kernel cache: {} is above MOEC_CACHE_SIZE ({}): removed {} entries",
      bytesText(used), bytesText(bytes), removed.size());
}
