//===- Communicator.h - collectives and windows between ranks ---*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The interface of one rank to the ranks of its layout. A run passes the
// collectives of its launch list to it, in order. All ranks of a group must
// issue the same collectives in the same order. "runtime/host/RankGroup.h"
// connects ranks that are threads of one process.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_COMM_COMMUNICATOR_H
#define MOEC_RUNTIME_COMM_COMMUNICATOR_H

#include "runtime/comm/Window.h"
#include "runtime/package/Arguments.h"
#include "runtime/package/Manifest.h"

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moec::comm {

/// The memory of one value that takes part in a collective.
struct Part {
  const void *from = nullptr;
  void *to = nullptr;
  /// Elements that each rank contributes to all_gather or receives from
  /// reduce_scatter; for all_reduce, all elements of the value.
  int64_t elements = 0;
  std::string_view elementType; ///< an element type name of ElementTypes.h
};

/// One collective with the memory of the calling rank.
struct Call {
  Collective::Kind kind = Collective::Kind::AllGather;
  int64_t ranks = 1, stride = 1;
  std::span<const Part> parts;
  void *stream = nullptr; ///< the CUDA stream on the GPU of the memory
  int64_t tokens = 0; ///< tokens of this rank in the run; 0: not part of a run
  /// The step that the call belongs to, for messages; empty: the name of the
  /// collective describes it.
  std::string_view step = {};
};

/// The connection of one rank to all others. Implementations: ranks of one
/// process, hosts without NCCL, GPUs without NCCL, and NCCL.
class Communicator {
public:
  virtual ~Communicator() = default;
  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0; ///< number of all ranks
  /// Returns true if calls work on GPU memory, false if on host memory.
  virtual bool onGpu() const { return false; }
  /// Returns the CUDA context that owns the memory of calls and windows, or
  /// null.
  virtual const void *context() const { return nullptr; }
  /// Sets up collectives of groups of `ranks` ranks, `stride` apart. All ranks
  /// must call it in the same order, before any run that needs the groups.
  virtual Result<void> prepare(int64_t /*ranks*/, int64_t /*stride*/) {
    return {};
  }
  /// Performs the collective, or enqueues it if `call` has a stream. Returns
  /// PeerMismatch if ranks issue different collectives, and PeerLost if a rank
  /// does not arrive in time.
  virtual Result<void> perform(const Call &call) = 0;
  /// Gathers `mine` of all ranks, in rank order, and waits for the result. All
  /// ranks must pass the same number of bytes.
  virtual Result<std::vector<char>> exchange(std::span<const char> mine,
                                             std::string_view step) = 0;
  /// Creates a window: memory on every rank that all ranks can write. Each
  /// rank's memory is zero before any rank returns. All ranks must call it in
  /// the same order and with the same `bytes`. The window keeps the state of
  /// the communicator that it needs. Returns NoCommunication if ranks cannot
  /// reach each other's memory.
  virtual Result<std::unique_ptr<Window>> window(int64_t bytes);
  /// Returns PeerLost if the communicator has failed. Thread-safe.
  virtual Result<void> status() = 0;
  /// Makes current waits and all later calls fail with PeerLost. Thread-safe.
  virtual void abort(std::string reason) = 0;
};

/// Returns the manifest's name of a collective, such as "all_gather".
std::string_view nameOf(Collective::Kind kind);

/// Returns the ranks of the group that contains `rank`, in ascending order.
std::vector<int64_t> groupOf(int64_t rank, int64_t ranks, int64_t stride);

/// Returns the size of `part` in bytes. Returns an error for an unknown element
/// type, or if the elements do not fill whole bytes.
Result<int64_t> bytesOf(const Part &part);

/// Returns the number of ranks that a run of `target` connects; 1 if the target
/// has no collective and no window.
int64_t ranksOf(const Target &target);

/// Checks that `communicator`, which may be null, fits the package. Returns
/// NoCommunication if the package needs a communicator and there is none.
/// Returns InvalidArgument if rank, number of ranks or kind of memory differ.
Result<void> check(const Communicator *communicator, const Manifest &manifest,
                   const Target &target, bool onGpu);

/// Prepares all groups that the target's launch lists use.
Result<void> prepare(Communicator &communicator, const Target &target);

/// Checks that all ranks have the same package, except for the fields that
/// differ by rank. Otherwise returns PeerMismatch with a rank and both values.
Result<void> compareRanks(Communicator &communicator, const Manifest &manifest);

/// Fills `parts` with the memory of the collective's values. Returns
/// InvalidArgument if a value has no memory.
Result<void> findParts(const Collective &collective, const Manifest &manifest,
                       const Target &target, const Symbols &symbols,
                       std::span<const BoundValue> values,
                       std::vector<Part> &parts);

} // namespace moec::comm

#endif // MOEC_RUNTIME_COMM_COMMUNICATOR_H
