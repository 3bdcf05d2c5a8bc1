//===- Nccl.h - a communicator over NCCL ------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// NCCL is loaded with dlopen, so moec can be built without it. If the process
// has already loaded an NCCL library, that library is used. NCCL 2.18 suffices,
// except for windows across hosts, which need 2.29.2. The declarations follow
// src/nccl.h.in in NVIDIA/nccl.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_COMM_NCCL_H
#define MOEC_RUNTIME_COMM_NCCL_H

#include "runtime/comm/Communicator.h"

#include <array>
#include <chrono>
#include <memory>
#include <optional>

namespace moec::comm {

/// ncclUniqueId. One rank creates it, and all ranks of a communicator use it.
using UniqueId = std::array<char, 128>;

struct NcclOptions {
  int64_t ranks = 0, rank = 0;
  int ordinal = -1; ///< GPU ordinal, as CudaPlace::find accepts it
  /// Maximum wait time: for connecting, for a kernel that waits for a rank, and
  /// for a run that waits for other ranks.
  std::chrono::milliseconds timeout{60000};
  /// Path of libnccl.so.2. If empty, a library that is already loaded is used,
  /// otherwise the library that dlopen finds.
  std::string path;
  std::optional<UniqueId> id;
  /// The caller's ncclComm_t, used instead of `id`. It is split at once, and
  /// remains the caller's property.
  void *borrowed = nullptr;
  /// True: NCCL creates windows even if the driver could share the memory.
  bool ncclWindows = false;
};

/// Returns a unique ID for a new communicator.
Result<UniqueId> makeUniqueId(const std::string &path);

/// Connects all ranks. All ranks must call this; it returns when all ranks have
/// called it. Returns NoCommunication if NCCL is missing, too old, or unable to
/// connect the ranks, and PeerLost after the timeout.
Result<std::unique_ptr<Communicator>> connectByNccl(const NcclOptions &options);

} // namespace moec::comm

#endif // MOEC_RUNTIME_COMM_NCCL_H
