//===- StagedFolder.h - a folder that appears atomically --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Packages and cache entries are written to `<path>.tmp-<unique>` and then
// renamed. The writer holds an flock of that folder, which the kernel releases
// when the process ends, even by a crash. The next writer of the same path
// removes folders without an owner.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_SUPPORT_STAGEDFOLDER_H
#define MOEC_RUNTIME_SUPPORT_STAGEDFOLDER_H

#include "runtime/support/Descriptor.h"
#include "runtime/support/Result.h"

#include <string>

namespace moec {

/// A temporary folder next to `target`. Unless it is published, the destructor
/// removes it with its content.
class StagedFolder {
public:
  /// Creates the folder and the parents of `target`. `mode` is restricted by
  /// the umask.
  static Result<StagedFolder> create(const std::string &target,
                                     unsigned mode = 0777);
  ~StagedFolder();
  StagedFolder(StagedFolder &&other) noexcept
      : temporary(std::exchange(other.temporary, {})),
        target(std::move(other.target)), lock(std::move(other.lock)) {}
  StagedFolder &operator=(StagedFolder &&) = delete;

  const std::string &path() const { return temporary; }

  /// Renames the folder to `target`, which must be absent or an empty folder.
  Result<void> publish();
  /// Like publish(), but `target` may also be a folder with content, which is
  /// removed. If the file system can exchange two names, readers find one of
  /// the two folders at any time; otherwise there is a moment with none.
  Result<void> replace();

private:
  StagedFolder() = default;
  std::string temporary, target;
  Descriptor lock;
};

/// Removes temporary folders of `target` whose owner process has ended.
void removeAbandoned(const std::string &target);

} // namespace moec

#endif // MOEC_RUNTIME_SUPPORT_STAGEDFOLDER_H
