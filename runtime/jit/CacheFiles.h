//===- CacheFiles.h - trust in the kernel cache -----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to runtime/jit. The hash of a cubin is stored next to it and
// therefore does not protect the cubin: any user who may write an entry decides
// which code runs. This file checks file owners, locks keys and removes damaged
// entries.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_JIT_CACHEFILES_H
#define MOEC_RUNTIME_JIT_CACHEFILES_H

#include "runtime/support/Descriptor.h"

#include <string>

namespace moec::runtime {

/// An exclusive flock on a file for the lifetime of this object. The operating
/// system releases it when the process ends, even by a crash. A forked child
/// closes its copy of the descriptor at once. The holder removes the file
/// before it releases the lock, so a new holder checks that the path still
/// refers to the locked file.
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
  int slot = -1; ///< slot number that closeInChildren() returned
};

/// Opens <root>/<arch>. It must not be a symbolic link, because other users
/// could replace the link's target.
Result<Descriptor> openCacheFolder(const std::string &root,
                                   const std::string &arch);

/// Creates <root>/<arch> such that only this user may write to it.
Result<void> makeCacheFolder(const std::string &root, const std::string &arch);

/// Logs a warning that entries cannot be stored in a folder. Warns once per
/// process.
void reportNoFolder(const std::string &folder, const std::string &why);

/// Logs a warning that writing an entry has failed. Warns once per process and
/// folder.
void reportNotStored(const std::string &folder, const std::string &why);

/// Logs a warning about an entry that another user owns. Warns once per process
/// and folder.
void reportForeignEntry(const std::string &entry, const std::string &why);

/// Logs a warning about a folder that other users may write to. Warns once per
/// process.
void reportOpenFolder(const std::string &folder);

/// Renames a damaged entry to `<entry>.damaged-<process>-<number>` and logs the
/// reason. Only one renamed copy per entry is kept.
void moveAside(const std::string &entry, const std::string &why);

/// Removes the damaged entries in a folder that were renamed more than a week
/// ago.
void removeOldDamaged(const std::string &folder);

} // namespace moec::runtime

#endif // MOEC_RUNTIME_JIT_CACHEFILES_H
