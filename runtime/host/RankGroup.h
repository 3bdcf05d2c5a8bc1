//===- RankGroup.h - ranks that are threads of one process ------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Connects ranks of the host device, each of which runs in its own thread.
// Reductions accumulate in f32 in rank order and round once, so results are
// bitwise reproducible, independent of the order in which ranks arrive.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_HOST_RANKGROUP_H
#define MOEC_RUNTIME_HOST_RANKGROUP_H

#include "runtime/comm/Communicator.h"

#include <chrono>
#include <functional>
#include <memory>

namespace moec::host {

/// A group of ranks. Thread-safe.
class RankGroup {
public:
  struct Options {
    /// Maximum time that a rank waits for the other ranks in a collective.
    std::chrono::milliseconds timeout{60000};
    /// A hook for tests, called for each rank before and after it synchronizes
    /// with other ranks.
    std::function<void(int64_t rank)> delay;
  };
  /// Creates a group of `size` ranks. Returns InvalidArgument if `size` is out
  /// of range.
  static Result<std::shared_ptr<RankGroup>> create(int64_t size,
                                                   Options options);
  virtual ~RankGroup() = default;

  /// Returns the communicator of a rank. It shares ownership of the group. Only
  /// one run at a time may use it.
  virtual Result<std::unique_ptr<comm::Communicator>> end(int64_t rank) = 0;
  /// Makes all current and later waits fail with PeerLost.
  virtual void abort(std::string reason) = 0;
};

} // namespace moec::host

#endif // MOEC_RUNTIME_HOST_RANKGROUP_H
