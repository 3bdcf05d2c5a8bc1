//===- CacheFiles.h - whom the kernel cache trusts --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to runtime/jit. The hash of a cubin stands beside it, so whoever
// writes an entry decides what runs. Owners, locks, and the removal of what
// nobody needs.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_JIT_CACHEFILES_H
#define MOEC_RUNTIME_JIT_CACHEFILES_H

#include "runtime/support/Descriptor.h"

#include <string>

namespace moec::runtime {

/// flock of one file for as long as this lives. The kernel releases it when
/// the process dies, however it dies; a forked child gives it up at once. The
/// holder removes the file, so whoever gets the lock checks that the path still
/// names what is locked.
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
  int slot = -1; ///< where the child of a fork finds the descriptor
};

/// Opens <root>/<arch>, which may not be a link: others could exchange what it
/// leads to.
Result<Descriptor> openCacheFolder(const std::string &root,
                                   const std::string &arch);

/// Makes <root>/<arch> so that only this user may write there.
Result<void> makeCacheFolder(const std::string &root, const std::string &arch);

/// Warns once a process that entries cannot be stored in a folder.
void reportNoFolder(const std::string &folder, const std::string &why);

/// Warns once a process and folder that writing an entry has failed.
void reportNotStored(const std::string &folder, const std::string &why);

/// Warns once a process and folder of an entry that another user owns.
void reportForeignEntry(const std::string &entry, const std::string &why);

/// Warns once a process of a folder that other users may write.
void reportOpenFolder(const std::string &folder);

/// Moves a damaged entry to `<entry>.damaged-<process>-<number>`, the only one
/// of this entry that is kept, and says why.
void moveAside(const std::string &entry, const std::string &why);

/// Removes what was moved aside in a folder of entries over a week ago.
void removeOldDamaged(const std::string &folder);

} // namespace moec::runtime

#endif // MOEC_RUNTIME_JIT_CACHEFILES_H
