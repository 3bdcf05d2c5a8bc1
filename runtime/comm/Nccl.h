//===- Nccl.h - a communicator over NCCL ------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// NCCL is loaded with dlopen, so no build depends on it. A library that the
// process has already loaded is preferred. NCCL 2.18 suffices, except for
// windows across hosts, which need 2.29.2. The declarations follow
// src/nccl.h.in of NVIDIA/nccl.
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
  /// Limit for connecting, for a kernel that waits for a rank, and for a run
  /// that waits for other ranks.
  std::chrono::milliseconds timeout{60000};
  /// Path of libnccl.so.2; empty: a library that is already loaded, else the
  /// one that dlopen finds.
  std::string path;
  std::optional<UniqueId> id;
  /// The caller's ncclComm_t, used instead of `id`. It is split at once, and
  /// the caller keeps ownership.
  void *borrowed = nullptr;
  /// Creates windows by NCCL even if the driver could share the memory.
  bool ncclWindows = false;
};

/// Creates an id for a new communicator.
Result<UniqueId> makeUniqueId(const std::string &path);

/// Connects all ranks; a collective call that returns when all ranks have
/// called it. Returns NoCommunication if NCCL is missing, too old, or unable to
/// connect the ranks, and PeerLost after the timeout.
Result<std::unique_ptr<Communicator>> connectByNccl(const NcclOptions &options);

} // namespace moec::comm

#endif // MOEC_RUNTIME_COMM_NCCL_H
