//===- Nccl.h - ranks that NCCL connects ------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// NCCL is opened at run time, so that no build needs it: a library that is in
// the process already serves first. Functions of NCCL 2.18 suffice, but for
// windows across hosts (2.29.2); their declarations are those of src/nccl.h.in
// of NVIDIA/nccl.
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

/// ncclUniqueId: one for all ranks of a communicator, made by one of them.
using UniqueId = std::array<char, 128>;

struct NcclOptions {
  int64_t ranks = 0, rank = 0;
  int ordinal = -1; ///< of the GPU, as CudaPlace::find takes it
  /// To connect, of a wait of a kernel, and of a run that waits for others.
  std::chrono::milliseconds timeout{60000};
  std::string path; ///< of libnccl.so.2; "": a loaded one, else as it is found
  std::optional<UniqueId> id;
  /// In place of an id: an ncclComm_t of the caller, which is split at once.
  void *borrowed = nullptr;
  /// Windows are NCCL's also where the driver could share them.
  bool ncclWindows = false;
};

Result<UniqueId> makeUniqueId(const std::string &path);

/// Collective: returns when all ranks have come. NoCommunication where there is
/// no NCCL, an older one, or one that cannot connect them; PeerLost where the
/// time is over.
Result<std::unique_ptr<Communicator>> connectByNccl(const NcclOptions &options);

} // namespace moec::comm

#endif // MOEC_RUNTIME_COMM_NCCL_H
