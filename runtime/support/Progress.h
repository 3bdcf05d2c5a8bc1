//===- Progress.h - how far a long step is ----------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Loops that may take minutes count here what they have done. Programs show it
// on a terminal; in an engine nobody listens, and counting costs an addition.
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

/// Called from any thread, one call at a time: `done` of `total` are done. The
/// first call of a step has done == 0. The last one has done == total, also if
/// the step has failed.
using ProgressSink =
    std::function<void(std::string_view what, int64_t done, int64_t total)>;

/// An empty sink shows nothing.
void setProgressSink(ProgressSink sink);
/// Sets it unless there is one; whether it was set.
bool offerProgressSink(ProgressSink sink);

/// One step, from its beginning to its end.
class Progress {
public:
  /// `what` is plural, "kernels compiled" say.
  Progress(std::string_view what, int64_t total);
  ~Progress();
  Progress(const Progress &) = delete;
  Progress &operator=(const Progress &) = delete;

  /// From any thread.
  void advance(int64_t count = 1);

private:
  const std::string what;
  const int64_t total;
  const bool quiet; ///< begun while there was a QuietProgress
  std::atomic<int64_t> done = 0;
};

/// While it lives, steps that its thread begins are not shown: they are parts
/// of one that is.
class QuietProgress {
public:
  QuietProgress();
  ~QuietProgress();
  QuietProgress(const QuietProgress &) = delete;
  QuietProgress &operator=(const QuietProgress &) = delete;
};

} // namespace moec

#endif // MOEC_RUNTIME_SUPPORT_PROGRESS_H
