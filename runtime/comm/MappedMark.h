//===- MappedMark.h - tracks the processes that map memory ------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// CUDA leaves the behavior undefined if a process frees memory that another
// process maps by IPC. Therefore each process that maps a window holds a shared
// flock on a file while it does so. The owner frees the memory when no process
// holds a lock. The kernel releases the locks of a process that dies. A forked
// child holds no lock, and destroying its copies of marks has no effect.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_COMM_MAPPEDMARK_H
#define MOEC_RUNTIME_COMM_MAPPEDMARK_H

#include "runtime/support/Descriptor.h"
#include "runtime/support/Result.h"

#include <cstdint>
#include <string>

namespace moec::comm {

/// One process's handle of the file that marks memory as mapped.
class MappedMark {
public:
  /// Creates the file, for the owner of the memory. Returns NoCommunication if
  /// the host has no folder for it.
  static Result<MappedMark> create();
  /// Opens the file and holds its shared lock until the object is destroyed,
  /// for a process that maps the memory.
  static Result<MappedMark> join(const std::string &path);

  MappedMark(MappedMark &&) = default;
  MappedMark &operator=(MappedMark &&) = delete;
  ~MappedMark();

  const std::string &path() const { return file; }
  /// Removes the file when no further process will join. Existing locks stay
  /// valid.
  void removeFile();
  /// Returns true if no joined process holds its lock. Only the owner may call
  /// it.
  bool isAlone() const;

private:
  MappedMark(Descriptor opened, std::string path, bool owns);

  Descriptor opened;
  std::string file;
  bool owns;
  int slot; ///< index in the list of descriptors that forked children close
  int64_t process;
};

} // namespace moec::comm

#endif // MOEC_RUNTIME_COMM_MAPPEDMARK_H
