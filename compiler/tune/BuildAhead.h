//===- BuildAhead.h - packages before they are measured ------- -*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Threads compile the next packages while the device measures. They stay a few
// packages ahead, and leave two hardware threads to the measuring process.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_TUNE_BUILDAHEAD_H
#define MOEC_COMPILER_TUNE_BUILDAHEAD_H

#include "runtime/support/Result.h"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace moec::compiler {

class BuildAhead {
public:
  /// Calls build(i) for i in [0, count), in this order, on several threads.
  BuildAhead(size_t count, std::function<Result<void>(size_t)> build);
  /// Waits for builds in progress and starts no more.
  ~BuildAhead();
  BuildAhead(const BuildAhead &) = delete;
  BuildAhead &operator=(const BuildAhead &) = delete;

  /// Waits until package i is built. Returns false if it is not built by
  /// `until`. Afterwards the threads may build packages further ahead.
  bool await(size_t i, std::chrono::steady_clock::time_point until);
  /// Returns the result of build(i); await(i) must have returned true.
  Result<void> result(size_t i);

private:
  void work();

  const size_t count;
  const std::function<Result<void>(size_t)> build;
  std::mutex mutex;
  std::condition_variable changed;
  size_t next = 0, wanted = 0, ahead = 0;
  bool stopped = false;
  std::vector<std::optional<std::optional<Error>>> results;
  std::vector<std::thread> threads;
};

} // namespace moec::compiler

#endif // MOEC_COMPILER_TUNE_BUILDAHEAD_H
