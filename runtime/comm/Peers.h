//===- Peers.h - GPUs that share memory, without NCCL -----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Kernels that exchange data through windows need no communication library. The
// hosts only need to exchange a few bytes while a context is created.
// Collectives need NCCL.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_COMM_PEERS_H
#define MOEC_RUNTIME_COMM_PEERS_H

#include "runtime/comm/Communicator.h"

#include <chrono>
#include <functional>
#include <memory>

namespace moec::comm {

/// Functions of a caller that connects the ranks itself. Each function returns
/// true on success.
///
/// GatherFunction gathers `bytes` bytes from each rank into `all`, in rank
/// order.
using GatherFunction =
    std::function<bool(const void *mine, size_t bytes, void *all)>;
/// Allocates window memory of `bytes` bytes on each rank. Fills in the
/// addresses at which this rank accesses the memory of every rank.
using MemoryFunction =
    std::function<bool(int64_t bytes, std::span<uint64_t> addresses)>;

/// Creates a communicator that only exchanges bytes between hosts. All ranks
/// must call this.
Result<std::unique_ptr<Communicator>> connectHosts(int64_t rank, int64_t ranks,
                                                   GatherFunction gather);

/// Options of connectPeers().
struct PeerOptions {
  int ordinal = -1; ///< GPU ordinal, as CudaPlace::find accepts it
  std::chrono::milliseconds timeout{60000}; ///< limit for kernels that wait
  /// Allocates window memory. If empty, the CUDA driver shares memory.
  MemoryFunction memory;
};

/// Creates a communicator for the GPUs of the ranks that `hosts` connects. It
/// supports windows but no collectives. All ranks must call this.
Result<std::unique_ptr<Communicator>>
connectPeers(std::unique_ptr<Communicator> hosts, PeerOptions options);

} // namespace moec::comm

#endif // MOEC_RUNTIME_COMM_PEERS_H
