//===- Peers.h - GPUs that reach each other, without NCCL -------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Kernels of ranks with windows need no library: it is enough that hosts
// exchange some bytes while a context is created. Collectives need one.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_COMM_PEERS_H
#define MOEC_RUNTIME_COMM_PEERS_H

#include "runtime/comm/Communicator.h"

#include <chrono>
#include <functional>
#include <memory>

namespace moec::comm {

/// Functions of a caller who connects ranks itself. Each says whether it did.
///
/// Gathers so many bytes of each rank, in their order.
using GatherFunction =
    std::function<bool(const void *mine, size_t bytes, void *all)>;
/// Fills in the addresses of memory of all ranks, as this one reaches it.
using MemoryFunction =
    std::function<bool(int64_t bytes, std::span<uint64_t> addresses)>;

/// A communicator of hosts alone.
Result<std::unique_ptr<Communicator>> connectHosts(int64_t rank, int64_t ranks,
                                                   GatherFunction gather);

struct PeerOptions {
  int ordinal = -1; ///< of the GPU, as CudaPlace::find takes it
  std::chrono::milliseconds timeout{60000}; ///< of kernels that wait
  MemoryFunction memory;                    ///< empty: the driver shares memory
};

/// GPUs of ranks whose hosts `hosts` connects. Collective.
Result<std::unique_ptr<Communicator>>
connectPeers(std::unique_ptr<Communicator> hosts, PeerOptions options);

} // namespace moec::comm

#endif // MOEC_RUNTIME_COMM_PEERS_H
