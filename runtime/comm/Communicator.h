//===- Communicator.h - collectives and windows between ranks ---*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The connection of one rank to the other ranks of its package. A run calls it
// for each collective in its launch list, in order. All ranks of a group must
// issue the same collectives in the same order. runtime/host/RankGroup.h
// implements it for ranks that are threads of one process.
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

/// The memory of one operand and its result in a collective.
struct Part {
  const void *from = nullptr;
  void *to = nullptr;
  /// For all_gather, the number of elements that each rank contributes. For
  /// reduce_scatter, the number of elements that each rank receives. For
  /// all_reduce, the number of elements of the value.
  int64_t elements = 0;
  std::string_view elementType; ///< a name from runtime/package/ElementTypes.h
};

/// One collective, with the memory of the rank that issues it.
struct Call {
  Collective::Kind kind = Collective::Kind::AllGather;
  int64_t ranks = 1, stride = 1;
  std::span<const Part> parts;
  /// CUDA stream to enqueue to, if the memory is on a GPU.
  void *stream = nullptr;
  int64_t tokens = 0; ///< this rank's token count in the run; 0: the call is
                      ///< not part of a run
  /// Description of the step for error messages; if empty, the name of the
  /// collective is used.
  std::string_view step = {};
};

/// The connection of one rank to all other ranks. There are implementations for
/// ranks in one process, for hosts without NCCL, for GPUs without NCCL, and for
/// NCCL.
class Communicator {
public:
  virtual ~Communicator() = default;
  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0; ///< number of all ranks
  /// Returns true if collectives access GPU memory, false if they access host
  /// memory.
  virtual bool onGpu() const { return false; }
  /// Returns the CUDA context that owns the memory of collectives and windows,
  /// or null.
  virtual const void *context() const { return nullptr; }
  /// Sets up collectives for all groups of `ranks` ranks whose ranks differ by
  /// `stride`. All ranks must call this in the same order, before any run that
  /// needs the groups.
  virtual Result<void> prepare(int64_t /*ranks*/, int64_t /*stride*/) {
    return {};
  }
  /// Performs the collective, or enqueues it if `call` has a stream. Returns
  /// PeerMismatch if the ranks issue different collectives, and PeerLost if a
  /// rank does not arrive before the timeout.
  virtual Result<void> perform(const Call &call) = 0;
  /// Gathers the bytes `mine` of all ranks, in rank order, and waits for the
  /// result. All ranks must pass the same number of bytes.
  virtual Result<std::vector<char>> exchange(std::span<const char> mine,
                                             std::string_view step) = 0;
  /// Creates a window: memory on every rank that all ranks can write. Every
  /// rank's memory is zeroed before the function returns on any rank. All ranks
  /// must call this in the same order and with the same `bytes`. The window
  /// keeps alive the parts of the communicator that it uses. Returns
  /// NoCommunication if ranks cannot access each other's memory.
  virtual Result<std::unique_ptr<Window>> window(int64_t bytes);
  /// Returns PeerLost if the communicator has failed. Thread-safe.
  virtual Result<void> status() = 0;
  /// Makes current waits and all later calls fail with PeerLost. Thread-safe.
  virtual void abort(std::string reason) = 0;
};

/// Returns the manifest's name of a collective, such as "all_gather".
std::string_view nameOf(Collective::Kind kind);

/// Returns the ranks of the group that contains `rank`, in ascending order. The
/// group has `ranks` members, whose ranks differ by `stride`.
std::vector<int64_t> groupOf(int64_t rank, int64_t ranks, int64_t stride);

/// Returns the size of `part` in bytes. Returns an error for an unknown element
/// type, or if the elements do not fill whole bytes.
Result<int64_t> bytesOf(const Part &part);

/// Returns the number of ranks that communicate in a run of `target`; 1 if the
/// target has no collective and no window.
int64_t ranksOf(const Target &target);

/// Checks that `communicator`, which may be null, fits the package. Returns
/// NoCommunication if the package needs a communicator and there is none.
/// Returns InvalidArgument if the communicator has another rank, rank count or
/// kind of memory than the package needs.
Result<void> check(const Communicator *communicator, const Manifest &manifest,
                   const Target &target, bool onGpu);

/// Prepares the communicator for all groups in the target's launch lists.
Result<void> prepare(Communicator &communicator, const Target &target);

/// Checks that all ranks have the same package, except for the fields that
/// differ by rank. Otherwise returns PeerMismatch; the message contains the
/// other rank and the values of both ranks.
Result<void> compareRanks(Communicator &communicator, const Manifest &manifest);

/// Fills `parts` with the memory of the collective's values. Returns
/// InvalidArgument if a value has no memory.
Result<void> findParts(const Collective &collective, const Manifest &manifest,
                       const Target &target, const Symbols &symbols,
                       std::span<const BoundValue> values,
                       std::vector<Part> &parts);

} // namespace moec::comm

#endif // MOEC_RUNTIME_COMM_COMMUNICATOR_H
