//===- ProgressDisplay.h - progress on standard error -----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// On a terminal, the last line shows the progress of a step until the step
// ends. In a log (any other file), one line per step is added every 30 seconds.
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

/// Converts calls of a ProgressSink to text.
class ProgressText {
public:
  enum class Style { Terminal, Log };

  /// Creates the converter. `logInterval`: time between two lines of a step in
  /// a log.
  ProgressText(Style style, Clock::duration logInterval,
               Clock::time_point start);

  /// Returns the text to write at time `now`. The text is empty in most cases.
  std::string update(std::string_view what, int64_t done, int64_t total,
                     Clock::time_point now);

private:
  struct Step {
    Clock::time_point start, last;
  };

  const Style style;
  const Clock::duration interval;
  std::map<std::string, Step, std::less<>> steps; ///< steps that have not ended
  Clock::time_point last; ///< time at which a text was last returned
  bool lineShown = false; ///< a progress line is on the terminal
};

/// Shows progress during its lifetime, unless another sink is already set.
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
