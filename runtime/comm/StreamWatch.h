//===- StreamWatch.h - detects collectives that hang ------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Collectives wait in a stream for ranks that may never arrive. An event is
// recorded after each collective of a run. Whenever a caller checks the
// progress, the events are queried, so no additional thread is needed. Work
// that is captured into a CUDA graph is not watched, because events cannot be
// recorded for it.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_COMM_STREAMWATCH_H
#define MOEC_RUNTIME_COMM_STREAMWATCH_H

#include "runtime/cuda/CudaCode.h"

#include <array>
#include <chrono>
#include <memory>
#include <mutex>

namespace moec::comm {

/// A ring of events. Each event marks work that was enqueued in a stream.
/// Thread-safe.
class StreamWatch {
public:
  /// Creates the events, so that add() allocates nothing.
  static Result<std::unique_ptr<StreamWatch>>
  create(const runtime::CudaPlace &place);
  ~StreamWatch();
  StreamWatch(const StreamWatch &) = delete;
  StreamWatch &operator=(const StreamWatch &) = delete;

  /// Watches the work that `stream` contains at the time of the call. The
  /// stream's CUDA context must be current.
  Result<void> add(runtime::cuda::CUstream stream);
  /// Returns how long no progress has been seen: the time since a call of add()
  /// or waiting() last found work completed, or since the oldest unfinished
  /// work was added if that is later. Returns 0 if all work has completed.
  std::chrono::milliseconds waiting();

private:
  using Clock = std::chrono::steady_clock;
  struct Watched {
    runtime::cuda::CUevent event = nullptr;
    Clock::time_point since;
  };
  StreamWatch(const runtime::cuda::CudaDriver &driver,
              runtime::cuda::CUcontext context)
      : driver(driver), context(context) {}
  void forgetEnded();
  Watched &at(size_t index) { return ring[(first + index) % ring.size()]; }

  const runtime::cuda::CudaDriver &driver;
  const runtime::cuda::CUcontext context;
  std::mutex mutex;
  std::array<Watched, 64> ring;
  size_t first = 0, count = 0;
  /// Time at which a query last observed completed work.
  Clock::time_point progress;
};

} // namespace moec::comm

#endif // MOEC_RUNTIME_COMM_STREAMWATCH_H
