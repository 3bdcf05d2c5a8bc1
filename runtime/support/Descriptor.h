//===- Descriptor.h - an open file that closes itself -----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Functions that access files through descriptors. A path may refer to a
// different file at each call, while an open descriptor always refers to the
// same file. No function here blocks: opening a FIFO, a socket or a device is
// an error.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_SUPPORT_DESCRIPTOR_H
#define MOEC_RUNTIME_SUPPORT_DESCRIPTOR_H

#include "runtime/support/Result.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace moec {

/// A file descriptor that is closed by its owner. It has the flag
/// close-on-exec.
class Descriptor {
public:
  Descriptor() = default;
  explicit Descriptor(int number) : number(number) {}
  ~Descriptor();
  Descriptor(Descriptor &&other) noexcept
      : number(std::exchange(other.number, -1)) {}
  Descriptor &operator=(Descriptor &&other) noexcept {
    std::swap(number, other.number);
    return *this;
  }

  explicit operator bool() const { return number >= 0; }
  int get() const { return number; }
  /// Releases ownership without closing the descriptor.
  void release() { number = -1; }

private:
  int number = -1;
};

/// Registers a descriptor that forked children must close at once; otherwise
/// they would also hold its locks. Returns the slot in which the descriptor is
/// registered, or -1 if all slots are in use.
int closeInChildren(const Descriptor &file);
/// Frees the slot. Must be called before the descriptor is closed, by the
/// process that registered it.
void keepNoMore(int slot);

/// Opens a folder for reading.
Result<Descriptor> openFolder(const std::string &path);

/// Opens a regular file for reading. Symbolic links are followed.
Result<Descriptor> openRegular(const std::string &path);

/// Opens `path` below an open folder. The path must be contained (see
/// isContainedPath()), and no component may be a symbolic link. `shown`: the
/// folder's name in error messages.
Result<Descriptor> openFolderAt(const Descriptor &folder,
                                const std::string &path,
                                const std::string &shown);
Result<Descriptor> openRegularAt(const Descriptor &folder,
                                 const std::string &path,
                                 const std::string &shown);

/// Reads the rest of a regular file. It is an error if there are more than
/// `mostBytes` bytes.
Result<std::string> readAll(const Descriptor &file, uint64_t mostBytes,
                            const std::string &shown);

/// Lists all paths below an open folder that are not folders, like listFiles().
Result<std::vector<std::string>> listFilesAt(const Descriptor &folder,
                                             const std::string &shown);

/// Lists the names in an open folder, sorted, without "." and "..".
Result<std::vector<std::string>> listNamesAt(const Descriptor &folder,
                                             const std::string &shown);

/// Returns true if the two arguments refer to the same file.
bool isSameFile(const Descriptor &file, const Descriptor &other);
bool isSameFile(const Descriptor &file, const std::string &path);

/// Returns a description of the owner if the open file or folder belongs
/// neither to this user nor to root, otherwise "".
std::string foreignOwner(const Descriptor &file);
/// Returns the reason why other users may write the open file or folder, or ""
/// if they may not write it.
std::string openToOthers(const Descriptor &file);

} // namespace moec

#endif // MOEC_RUNTIME_SUPPORT_DESCRIPTOR_H
