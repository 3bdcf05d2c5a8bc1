//===- TerminalProgress.h - progress on a terminal --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// While it lives, and if standard error is a terminal, the last line there says
// how far a step is. The line is gone when the step has ended.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_SUPPORT_TERMINALPROGRESS_H
#define MOEC_RUNTIME_SUPPORT_TERMINALPROGRESS_H

#include "runtime/support/Progress.h"

#include <chrono>
#include <cstdio>
#include <unistd.h>

namespace moec {

class TerminalProgress {
public:
  TerminalProgress() {
    if (::isatty(STDERR_FILENO))
      shows =
          offerProgressSink([this](std::string_view what, int64_t done,
                                   int64_t total) { show(what, done, total); });
  }
  ~TerminalProgress() {
    if (shows)
      setProgressSink({});
  }
  TerminalProgress(const TerminalProgress &) = delete;
  TerminalProgress &operator=(const TerminalProgress &) = delete;

private:
  using Clock = std::chrono::steady_clock;

  void show(std::string_view what, int64_t done, int64_t total) {
    if (done == total) {
      if (shown)
        std::fputs("\r\x1b[K", stderr);
      shown = false;
      return;
    }
    // Short steps stay silent, long ones do not flicker.
    constexpr std::chrono::milliseconds kInterval(100);
    const Clock::time_point now = Clock::now();
    if (now - last < kInterval)
      return;
    last = now;
    shown = true;
    std::fprintf(stderr, "\r%.*s: %lld of %lld\x1b[K",
                 static_cast<int>(what.size()), what.data(),
                 static_cast<long long>(done), static_cast<long long>(total));
  }

  bool shows = false; ///< else somebody hears it already
  bool shown = false;
  Clock::time_point last = Clock::now();
};

} // namespace moec

#endif // MOEC_RUNTIME_SUPPORT_TERMINALPROGRESS_H
