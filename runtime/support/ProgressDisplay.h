//===- ProgressDisplay.h - progress on standard error -----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A terminal shows in its last line how far a step is, until the step ends. A
// log, which is any other file, gets a line every 30 seconds of a step.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_SUPPORT_PROGRESSDISPLAY_H
#define MOEC_RUNTIME_SUPPORT_PROGRESSDISPLAY_H

#include "runtime/support/Clock.h"
#include "runtime/support/Progress.h"

#include <cstdio>
#include <map>
#include <string>

namespace moec {

/// Converts the calls of a ProgressSink to text.
class ProgressText {
public:
  enum class Style { Terminal, Log };

  /// `logInterval` is the time between two lines of a step in a log.
  ProgressText(Style style, Clock::duration logInterval,
               Clock::time_point start);

  /// Returns what to write at `now`, in most cases nothing.
  std::string update(std::string_view what, int64_t done, int64_t total,
                     Clock::time_point now);

private:
  struct Step {
    Clock::time_point start, last;
  };

  const Style style;
  const Clock::duration interval;
  std::map<std::string, Step, std::less<>> steps; ///< that have not ended
  Clock::time_point last;                         ///< when a text was returned
  bool lineShown = false;                         ///< on the terminal
};

/// Shows progress while it lives, unless another sink is set already.
class ProgressDisplay {
public:
  explicit ProgressDisplay(
      std::FILE *file = stderr,
      Clock::duration logInterval = std::chrono::seconds(30));
  ~ProgressDisplay();
  ProgressDisplay(const ProgressDisplay &) = delete;
  ProgressDisplay &operator=(const ProgressDisplay &) = delete;

private:
  ProgressText text;
  bool isSink = false;
};

} // namespace moec

#endif // MOEC_RUNTIME_SUPPORT_PROGRESSDISPLAY_H
