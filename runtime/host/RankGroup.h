//===- RankGroup.h - ranks that are threads of one process ------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Connects ranks of the host device, each in a thread of its own. Sums are made
// in f32 in the order of ranks and rounded once, so that the same input gives
// the same bits whoever comes first.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_HOST_RANKGROUP_H
#define MOEC_RUNTIME_HOST_RANKGROUP_H

#include "runtime/comm/Communicator.h"

#include <chrono>
#include <functional>
#include <memory>

namespace moec::host {

class RankGroup {
public:
  struct Options {
    /// A rank waits so long for the others of a collective.
    std::chrono::milliseconds timeout{60000};
    /// Called by each rank before it meets the others and behind, for tests.
    std::function<void(int64_t rank)> delay;
  };
  /// InvalidArgument unless there is a rank.
  static Result<std::shared_ptr<RankGroup>> create(int64_t size,
                                                   Options options);
  virtual ~RankGroup() = default;

  /// The end of a rank, which keeps the group. One run at a time uses it.
  virtual Result<std::unique_ptr<comm::Communicator>> end(int64_t rank) = 0;
  /// Lets every rank that waits, or comes later, fail with PeerLost.
  virtual void abort(std::string reason) = 0;
};

} // namespace moec::host

#endif // MOEC_RUNTIME_HOST_RANKGROUP_H
