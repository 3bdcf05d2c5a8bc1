//===- CacheFiles.h - trust in the kernel cache -----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to runtime/jit. The hash of a cubin is stored next to it, so any user
// who may write an entry decides which code runs. This file checks owners,
// locks keys and removes damaged entries.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_JIT_CACHEFILES_H
#define MOEC_RUNTIME_JIT_CACHEFILES_H

#include "runtime/support/Descriptor.h"

#include <string>

namespace moec::runtime {

/// An flock of one file for the lifetime of this object. The kernel releases it
/// when the process ends, even by a crash. A forked child closes its copy at
/// once. The holder removes the file, so a new holder checks that the path
/// still names the locked file.
class FileLock {
public:
  explicit FileLock(std::string path);
  ~FileLock();
  FileLock(const FileLock &) = delete;
  FileLock &operator=(const FileLock &) = delete;

  bool held = false;

private:
  bool tryOnce();
  std::string path;
  Descriptor file;
  int slot = -1; ///< slot number from closeInChildren()
};

/// Opens <root>/<arch>, which must not be a link: other users could replace the
/// link's target.
Result<Descriptor> openCacheFolder(const std::string &root,
                                   const std::string &arch);

/// Creates <root>/<arch> such that only this user may write to it.
Result<void> makeCacheFolder(const std::string &root, const std::string &arch);

/// Warns that entries cannot be stored in a folder, once per process.
void reportNoFolder(const std::string &folder, const std::string &why);

/// Warns that writing an entry has failed, once per process and folder.
void reportNotStored(const std::string &folder, const std::string &why);

/// Warns of an entry that another user owns, once per process and folder.
void reportForeignEntry(const std::string &entry, const std::string &why);

/// Warns of a folder that other users may write to, once per process.
void reportOpenFolder(const std::string &folder);

/// Renames a damaged entry to `<entry>.damaged-<process>-<number>` and logs the
/// reason. Only one renamed copy is kept for each entry.
void moveAside(const std::string &entry, const std::string &why);

/// Removes the entries of a folder that were moved aside more than a week ago.
void removeOldDamaged(const std::string &folder);

} // namespace moec::runtime

#endif // MOEC_RUNTIME_JIT_CACHEFILES_H
