//===- Progress.h - progress of long operations -----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Loops that may take minutes report their progress here. Programs show it on a
// terminal. Without a sink, as in an engine, it costs only an addition.
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

/// Receives the progress: `done` of `total` parts are finished. It is called
/// from any thread, but one call at a time. The first call of a step has done
/// == 0. The last one has done == total, even if the step has failed.
using ProgressSink =
    std::function<void(std::string_view what, int64_t done, int64_t total)>;

/// Sets the sink. An empty sink shows nothing.
void setProgressSink(ProgressSink sink);
/// Sets the sink unless there is one. Returns true if it was set.
bool offerProgressSink(ProgressSink sink);

/// One step, from construction to destruction.
class Progress {
public:
  /// Starts a step. `what` is plural, such as "kernels compiled".
  Progress(std::string_view what, int64_t total);
  ~Progress();
  Progress(const Progress &) = delete;
  Progress &operator=(const Progress &) = delete;

  /// Reports that `count` more parts are finished. Thread-safe.
  void advance(int64_t count = 1);

private:
  const std::string what;
  const int64_t total;
  const bool quiet; ///< created while there was a QuietProgress
  std::atomic<int64_t> done = 0;
};

/// During its lifetime, steps that its thread starts are not shown, because
/// they are parts of a step that is shown.
class QuietProgress {
public:
  QuietProgress();
  ~QuietProgress();
  QuietProgress(const QuietProgress &) = delete;
  QuietProgress &operator=(const QuietProgress &) = delete;
};

} // namespace moec

#endif // MOEC_RUNTIME_SUPPORT_PROGRESS_H
