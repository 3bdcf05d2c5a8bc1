//===- StagedFolder.h - a folder that appears at once -----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Packages and entries of the cache are written into `<path>.tmp-<unique>` and
// renamed. The owner holds a flock of that folder, which the kernel releases
// when it dies, however it dies: the next writer of the same path removes
// folders without an owner.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_SUPPORT_STAGEDFOLDER_H
#define MOEC_RUNTIME_SUPPORT_STAGEDFOLDER_H

#include "runtime/support/Descriptor.h"
#include "runtime/support/Result.h"

#include <string>

namespace moec {

/// A temporary folder beside `target`. Unless it is published, it goes with its
/// content when this does.
class StagedFolder {
public:
  /// Parents of `target` are made. `mode` is cut by the umask.
  static Result<StagedFolder> create(const std::string &target,
                                     unsigned mode = 0777);
  ~StagedFolder();
  StagedFolder(StagedFolder &&other) noexcept
      : temporary(std::exchange(other.temporary, {})),
        target(std::move(other.target)), lock(std::move(other.lock)) {}
  StagedFolder &operator=(StagedFolder &&) = delete;

  const std::string &path() const { return temporary; }

  /// Puts the folder in the place of an absent or empty one.
  Result<void> publish();
  /// Also of a filled one, which is removed. Readers find one of the two at
  /// any time where the file system can exchange two names; elsewhere there is
  /// a moment with none.
  Result<void> replace();

private:
  StagedFolder() = default;
  std::string temporary, target;
  Descriptor lock;
};

/// Removes temporary folders of `target` whose owner is dead.
void removeAbandoned(const std::string &target);

} // namespace moec

#endif // MOEC_RUNTIME_SUPPORT_STAGEDFOLDER_H
