//===- MappedMark.h - which processes still map a memory --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// CUDA leaves undefined what comes of memory that its process frees while
// another one maps it by IPC. So each process that maps a memory holds a shared
// flock of a file for as long, and its owner frees it when nobody holds one.
// The kernel lets go of the locks of a process that dies. A child of a fork
// holds none, and its copies of marks do nothing.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_COMM_MAPPEDMARK_H
#define MOEC_RUNTIME_COMM_MAPPEDMARK_H

#include "runtime/support/Descriptor.h"
#include "runtime/support/Result.h"

#include <cstdint>
#include <string>

namespace moec::comm {

class MappedMark {
public:
  /// The owner's end, of a new file. NoCommunication where the host has no
  /// folder for it.
  static Result<MappedMark> create();
  /// The end of a process that maps the memory: it does so while this lives.
  static Result<MappedMark> join(const std::string &path);

  MappedMark(MappedMark &&) = default;
  MappedMark &operator=(MappedMark &&) = delete;
  ~MappedMark();

  const std::string &path() const { return file; }
  /// Nobody joins any more: removes the file. Locks stay.
  void removeFile();
  /// Whether all that joined have gone. Asked by the owner.
  bool isAlone() const;

private:
  MappedMark(Descriptor opened, std::string path, bool owns);

  Descriptor opened;
  std::string file;
  bool owns;
  int slot; ///< where children find the descriptor
  int64_t process;
};

} // namespace moec::comm

#endif // MOEC_RUNTIME_COMM_MAPPEDMARK_H
