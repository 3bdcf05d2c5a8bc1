//===- CacheEntries.h - size of the kernel cache ----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lists cache entries and removes them, least recently used first. A hit
// updates the entry's modification time. Entries may be removed while other
// processes use them: a reader that has opened the folder either still finds
// the files, or gets a miss and compiles.
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
  /// Name of the entry folder: the kernel and 16 digits of the key.
  std::string name;
  uint64_t bytes = 0;
  time_t used = 0;      ///< last use, with a resolution of one hour
  bool isOwn = false;   ///< this user may remove it
  bool isWhole = false; ///< false if the entry is damaged or incomplete
};

/// Returns all entries of a cache, least recently used first. The list is empty
/// if the folder does not exist. Returns a FileSystem error if the folder
/// cannot be read.
Result<std::vector<CacheEntry>> listCache(const std::string &root);

/// Removes an entry. Returns a FileSystem error on failure; an entry that no
/// longer exists is not an error.
Result<void> removeCacheEntry(const std::string &root, const CacheEntry &entry);

/// Returns the least recently used entries whose removal leaves at most `bytes`
/// bytes.
std::vector<CacheEntry> entriesAbove(const std::vector<CacheEntry> &entries,
                                     uint64_t bytes);

/// If the cache has more than `bytes` bytes, removes entries until it has at
/// most 90 % of `bytes`. Errors are logged as warnings.
void boundCache(const std::string &root, uint64_t bytes);

} // namespace moec::runtime

#endif // MOEC_RUNTIME_JIT_CACHEENTRIES_H
