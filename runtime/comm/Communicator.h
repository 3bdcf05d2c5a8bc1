//===- Communicator.h - how ranks reach each other --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A rank's end of what connects the ranks of a layout. A run hands it the
// collectives of its launch list, in order; all ranks of a group must do the
// same. Who connects threads of one process is host/RankGroup.h.
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

/// One value of a collective.
struct Part {
  const void *from = nullptr;
  void *to = nullptr;
  /// Elements that a rank brings to all_gather or gets of reduce_scatter; of
  /// all_reduce all.
  int64_t elements = 0;
  std::string_view elementType; ///< a name of ElementTypes.h
};

/// A collective with the memory of one rank.
struct Call {
  Collective::Kind kind = Collective::Kind::AllGather;
  int64_t ranks = 1, stride = 1;
  std::span<const Part> parts;
  void *stream = nullptr;     ///< of the GPU that the memory is on
  int64_t tokens = 0;         ///< of the run, of this rank; 0: of no run
  std::string_view step = {}; ///< what it is part of; "": its name says it
};

class Communicator {
public:
  virtual ~Communicator() = default;
  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0; ///< ranks, of all groups
  /// Whether memory of calls is a GPU's, not the host's.
  virtual bool onGpu() const { return false; }
  /// The CUDA context that memory of calls and windows is of, or null.
  virtual const void *context() const { return nullptr; }
  /// Makes collectives of groups possible. All ranks do it, in one order and
  /// before any run that needs it.
  virtual Result<void> prepare(int64_t /*ranks*/, int64_t /*stride*/) {
    return {};
  }
  /// Does it, or queues it where there is a stream. PeerMismatch where ranks do
  /// not do the same, PeerLost where one does not come.
  virtual Result<void> perform(const Call &call) = 0;
  /// The bytes of all ranks, in their order; each brings as many. Waits.
  virtual Result<std::vector<char>> exchange(std::span<const char> mine,
                                             std::string_view step) = 0;
  /// Memory that all ranks write for each other, zeroed on each before any
  /// returns. All ranks do it, in one order and with as many bytes. The window
  /// keeps what it needs of the communicator. NoCommunication where ranks
  /// cannot reach each other's memory.
  virtual Result<std::unique_ptr<Window>> window(int64_t bytes);
  /// PeerLost where it has failed. Any thread may ask at any time.
  virtual Result<void> status() = 0;
  /// Lets what waits fail with PeerLost, and what comes later. Any thread may
  /// do it at any time.
  virtual void abort(std::string reason) = 0;
};

/// "all_gather", as manifests spell it.
std::string_view nameOf(Collective::Kind kind);

/// The ranks of the group that `rank` is in, ascending.
std::vector<int64_t> groupOf(int64_t rank, int64_t ranks, int64_t stride);

/// Bytes of so many elements, which are whole ones.
Result<int64_t> bytesOf(const Part &part);

/// The ranks that a target's runs connect; 1 where they have no collective and
/// no window.
int64_t ranksOf(const Target &target);

/// Checks a rank's end (null: none) against what a package of one rank needs:
/// NoCommunication where it lacks one, InvalidArgument where it has another
/// rank or number of ranks, or another device's memory.
Result<void> check(const Communicator *communicator, const Manifest &manifest,
                   const Target &target, bool onGpu);

/// Prepares all groups of a target's launch lists.
Result<void> prepare(Communicator &communicator, const Target &target);

/// Checks that all ranks have the same package but for what is of a rank:
/// PeerMismatch names a rank and what both have.
Result<void> compareRanks(Communicator &communicator, const Manifest &manifest);

/// Fills `parts` with the memory of a collective's values. InvalidArgument
/// where a value has none.
Result<void> findParts(const Collective &collective, const Manifest &manifest,
                       const Target &target, const Symbols &symbols,
                       std::span<const BoundValue> values,
                       std::vector<Part> &parts);

} // namespace moec::comm

#endif // MOEC_RUNTIME_COMM_COMMUNICATOR_H
