//===- Progress.h - progress of long operations -----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Loops that may take minutes report their progress here. Programs show the
// progress on a terminal. Without a sink, for example in an inference engine, a
// report costs only one addition.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_SUPPORT_PROGRESS_H
#define MOEC_RUNTIME_SUPPORT_PROGRESS_H

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace moec {

/// Receives the progress: `done` of `total` items are finished. It may be
/// called from any thread, but never concurrently. In the first call of a step,
/// done == 0. In the last call, done == total, even if the step has failed.
using ProgressSink =
    std::function<void(std::string_view what, int64_t done, int64_t total)>;

/// Sets the sink. An empty sink disables progress reports.
void setProgressSink(ProgressSink sink);
/// Sets the sink unless a sink is already set. Returns true if the sink was
/// set.
bool offerProgressSink(ProgressSink sink);

/// A step whose progress is reported. The step lasts from construction to
/// destruction.
class Progress {
public:
  /// Starts a step. `what` is a plural, such as "kernels compiled".
  Progress(std::string_view what, int64_t total);
  ~Progress();
  Progress(const Progress &) = delete;
  Progress &operator=(const Progress &) = delete;

  /// Reports that `count` more items are finished. Thread-safe.
  void advance(int64_t count = 1);

private:
  const std::string what;
  const int64_t total;
  const bool quiet; ///< created while its thread had a QuietProgress
  std::atomic<int64_t> done = 0;
};

/// During its lifetime, steps that this thread starts are not reported, because
/// they belong to a step that is reported.
class QuietProgress {
public:
  QuietProgress();
  ~QuietProgress();
  QuietProgress(const QuietProgress &) = delete;
  QuietProgress &operator=(const QuietProgress &) = delete;
};

} // namespace moec

#endif // MOEC_RUNTIME_SUPPORT_PROGRESS_H
