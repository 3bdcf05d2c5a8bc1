//===- RankGroup.h - ranks that are threads of one process ------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Connects ranks of the host device, each of which runs in its own thread. Sums
// are accumulated in f32 in rank order and rounded once, so results are bitwise
// reproducible whatever order the ranks arrive in.
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
    /// Limit for a rank that waits for the others of a collective.
    std::chrono::milliseconds timeout{60000};
    /// Called for each rank before and after it synchronizes with others, for
    /// tests.
    std::function<void(int64_t rank)> delay;
  };
  /// Creates a group of `size` ranks. Returns InvalidArgument if `size` is out
  /// of range.
  static Result<std::shared_ptr<RankGroup>> create(int64_t size,
                                                   Options options);
  virtual ~RankGroup() = default;

  /// Returns the communicator of a rank, which shares ownership of the group.
  /// One run at a time may use it.
  virtual Result<std::unique_ptr<comm::Communicator>> end(int64_t rank) = 0;
  /// Makes all current and later waits fail with PeerLost.
  virtual void abort(std::string reason) = 0;
};

} // namespace moec::host

#endif // MOEC_RUNTIME_HOST_RANKGROUP_H
