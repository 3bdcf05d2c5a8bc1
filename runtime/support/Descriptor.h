//===- Descriptor.h - an open file that closes itself -----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reading through descriptors: a path may name another file at each call, what
// is open stays the same. Nothing here waits: a FIFO, a socket and a device are
// errors.
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

/// A file descriptor, closed on exec.
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
  /// Forgets the number without closing it.
  void release() { number = -1; }

private:
  int number = -1;
};

/// Lets children of a fork close a descriptor at once, since they would hold
/// its locks, too. Returns where it is kept; -1 where too many are.
int closeInChildren(const Descriptor &file);
/// Called in front of the descriptor's end, in the process that kept it.
void keepNoMore(int slot);

/// Opens a folder for reading.
Result<Descriptor> openFolder(const std::string &path);

/// Opens a regular file for reading; links are followed.
Result<Descriptor> openRegular(const std::string &path);

/// Opens `path` (contained, see isContainedPath) below a folder that is open;
/// no part of it may be a link. `shown` stands for the folder in errors.
Result<Descriptor> openFolderAt(const Descriptor &folder,
                                const std::string &path,
                                const std::string &shown);
Result<Descriptor> openRegularAt(const Descriptor &folder,
                                 const std::string &path,
                                 const std::string &shown);

/// Reads the rest of a regular file; more than `mostBytes` are an error.
Result<std::string> readAll(const Descriptor &file, uint64_t mostBytes,
                            const std::string &shown);

/// Paths of all that is no folder below an open folder, as listFiles says.
Result<std::vector<std::string>> listFilesAt(const Descriptor &folder,
                                             const std::string &shown);

/// Names of all that stands in an open folder, sorted, without . and ..
Result<std::vector<std::string>> listNamesAt(const Descriptor &folder,
                                             const std::string &shown);

/// Whether two descriptors, or a path and a descriptor, are one file.
bool isSameFile(const Descriptor &file, const Descriptor &other);
bool isSameFile(const Descriptor &file, const std::string &path);

/// Why an open file or folder belongs neither to this user nor to root; "" if
/// it does.
std::string foreignOwner(const Descriptor &file);
/// Why others may write it; "" if they may not.
std::string openToOthers(const Descriptor &file);

} // namespace moec

#endif // MOEC_RUNTIME_SUPPORT_DESCRIPTOR_H
