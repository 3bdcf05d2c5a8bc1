//===- StreamWatch.h - whether what was queued makes progress ---*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Collectives wait in a stream for ranks that may never come. Events behind
// them tell, whenever somebody asks: no thread is needed. The graph that a
// stream is captured into has none, and is not watched.
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

class StreamWatch {
public:
  /// Makes its events; watching allocates nothing.
  static Result<std::unique_ptr<StreamWatch>>
  create(const runtime::CudaPlace &place);
  ~StreamWatch();
  StreamWatch(const StreamWatch &) = delete;
  StreamWatch &operator=(const StreamWatch &) = delete;

  /// Watches what the stream has by now. Its context is current.
  Result<void> add(runtime::cuda::CUstream stream);
  /// How long the oldest that has not ended is the oldest, as far as it was
  /// asked; 0 where all have ended.
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
  Clock::time_point progress; ///< when one was seen to have ended
};

} // namespace moec::comm

#endif // MOEC_RUNTIME_COMM_STREAMWATCH_H
