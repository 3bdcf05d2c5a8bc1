//===- StagedFolder.h - a folder that appears atomically --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Packages and cache entries are written to a folder `<path>.tmp-<unique>`,
// which is then renamed. The writer holds an flock on that folder, which the
// kernel releases when the process ends, even by a crash. The next writer of
// the same path removes temporary folders that are not locked.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_SUPPORT_STAGEDFOLDER_H
#define MOEC_RUNTIME_SUPPORT_STAGEDFOLDER_H

#include "runtime/support/Descriptor.h"
#include "runtime/support/Result.h"

#include <string>

namespace moec {

/// A temporary folder next to `target`. The destructor removes the folder with
/// its content unless it was published.
class StagedFolder {
public:
  /// Creates the temporary folder and the parents of `target`. `mode`: mode of
  /// the folder, restricted by the umask.
  static Result<StagedFolder> create(const std::string &target,
                                     unsigned mode = 0777);
  ~StagedFolder();
  StagedFolder(StagedFolder &&other) noexcept
      : temporary(std::exchange(other.temporary, {})),
        target(std::move(other.target)), lock(std::move(other.lock)) {}
  StagedFolder &operator=(StagedFolder &&) = delete;

  const std::string &path() const { return temporary; }

  /// Renames the folder to `target`. `target` must not exist or must be an
  /// empty folder.
  Result<void> publish();
  /// Like publish(), but `target` may also be a folder with content. The old
  /// content is removed. If the file system can exchange two names, readers
  /// find either the old or the new folder at any time. Otherwise there is a
  /// moment without a folder.
  Result<void> replace();

private:
  StagedFolder() = default;
  std::string temporary, target;
  Descriptor lock;
};

/// Removes temporary folders of `target` that belong to processes that have
/// ended.
void removeAbandoned(const std::string &target);

} // namespace moec

#endif // MOEC_RUNTIME_SUPPORT_STAGEDFOLDER_H
