//===- CacheEntries.h - size of the kernel cache ----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lists entries and removes them, the least recently used first. A hit renews
// the time of its entry. An entry that another process reads or writes is
// removed as a whole: readers that have opened its folder find it or miss it,
// and compile.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_JIT_CACHEENTRIES_H
#define MOEC_RUNTIME_JIT_CACHEENTRIES_H

#include "runtime/support/Result.h"

#include <cstdint>
#include <ctime>
#include <string>
#include <vector>

namespace moec::runtime {

struct CacheEntry {
  std::string arch;
  std::string name; ///< its folder's: the kernel and 16 digits of the key
  uint64_t bytes = 0;
  time_t used = 0;      ///< when it was written, or read within an hour
  bool isOwn = false;   ///< this user may remove it
  bool isWhole = false; ///< false if it was damaged or never finished
};

/// All entries of a cache, the least recently used first; none if there is no
/// such folder. FileSystem if it cannot be read.
Result<std::vector<CacheEntry>> listCache(const std::string &root);

/// Removes an entry. FileSystem if that fails; one that has gone is no error.
Result<void> removeCacheEntry(const std::string &root, const CacheEntry &entry);

/// Returns the entries, least recently used first, without which the others
/// have at most `bytes`.
std::vector<CacheEntry> entriesAbove(const std::vector<CacheEntry> &entries,
                                     uint64_t bytes);

/// Removes entries until the cache has nine tenths of `bytes`, if it has more
/// than `bytes`. Errors are warnings.
void boundCache(const std::string &root, uint64_t bytes);

} // namespace moec::runtime

#endif // MOEC_RUNTIME_JIT_CACHEENTRIES_H
