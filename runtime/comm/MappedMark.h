//===- MappedMark.h - tracks the processes that map memory ------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// CUDA leaves the behavior undefined if a process frees memory that another
// process maps through CUDA IPC. Therefore each process holds a shared flock on
// a file as long as it maps a window. The owner frees the memory when no
// process holds a lock. The kernel releases the locks of a process that dies. A
// forked child holds no lock, and destroying its copies of MappedMark objects
// has no effect.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_COMM_MAPPEDMARK_H
#define MOEC_RUNTIME_COMM_MAPPEDMARK_H

#include "runtime/support/Descriptor.h"
#include "runtime/support/Result.h"

#include <cstdint>
#include <string>

namespace moec::comm {

/// One process's handle for the file that represents mapped memory.
class MappedMark {
public:
  /// Creates the file. The owner of the memory calls this. Returns
  /// NoCommunication if the host has no folder for the file.
  static Result<MappedMark> create();
  /// Opens the file and holds a shared lock on it until the object is
  /// destroyed. A process that maps the memory calls this.
  static Result<MappedMark> join(const std::string &path);

  MappedMark(MappedMark &&) = default;
  MappedMark &operator=(MappedMark &&) = delete;
  ~MappedMark();

  const std::string &path() const { return file; }
  /// Removes the file, so that no further process can join. Existing locks
  /// remain valid.
  void removeFile();
  /// Returns true if no process that joined still holds its lock. Only the
  /// owner may call this.
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
