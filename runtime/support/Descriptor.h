//===- Descriptor.h - an open file that closes itself -----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads through descriptors: a path may name another file at each call, while
// an open descriptor always refers to the same file. No function here blocks: a
// FIFO, a socket and a device are errors.
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

/// An owned file descriptor with close-on-exec.
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

/// Makes forked children close a descriptor at once, because they would
/// otherwise hold its locks, too. Returns the slot in which it is stored, or -1
/// if all are in use.
int closeInChildren(const Descriptor &file);
/// Frees the slot. Must be called before the descriptor is closed, in the
/// process that stored it.
void keepNoMore(int slot);

/// Opens a folder for reading.
Result<Descriptor> openFolder(const std::string &path);

/// Opens a regular file for reading. Links are followed.
Result<Descriptor> openRegular(const std::string &path);

/// Opens `path` (contained, see isContainedPath()) below an open folder. No
/// part of it may be a link. `shown` is the name of the folder in errors.
Result<Descriptor> openFolderAt(const Descriptor &folder,
                                const std::string &path,
                                const std::string &shown);
Result<Descriptor> openRegularAt(const Descriptor &folder,
                                 const std::string &path,
                                 const std::string &shown);

/// Reads the rest of a regular file. More than `mostBytes` bytes are an error.
Result<std::string> readAll(const Descriptor &file, uint64_t mostBytes,
                            const std::string &shown);

/// Lists the paths of everything except folders below an open folder, like
/// listFiles().
Result<std::vector<std::string>> listFilesAt(const Descriptor &folder,
                                             const std::string &shown);

/// Lists the names in an open folder, sorted, without . and ..
Result<std::vector<std::string>> listNamesAt(const Descriptor &folder,
                                             const std::string &shown);

/// Returns true if two descriptors, or a path and a descriptor, refer to the
/// same file.
bool isSameFile(const Descriptor &file, const Descriptor &other);
bool isSameFile(const Descriptor &file, const std::string &path);

/// Returns why an open file or folder belongs neither to this user nor to root,
/// or "" if it does.
std::string foreignOwner(const Descriptor &file);
/// Returns why other users may write it, or "" if they may not.
std::string openToOthers(const Descriptor &file);

} // namespace moec

#endif // MOEC_RUNTIME_SUPPORT_DESCRIPTOR_H
