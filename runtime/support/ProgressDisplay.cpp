//===- ProgressDisplay.cpp - progress on standard error -------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/support/ProgressDisplay.h"

#include "runtime/support/Result.h"

#include <fmt/format.h>

#include <unistd.h>
#include <utility>

using namespace moec;

/// Returns a text such as ", about 12 s left", or "" if it is too early for an
/// estimate.
static std::string timeLeft(Clock::duration elapsed, int64_t done,
                            int64_t total) {
  constexpr std::chrono::seconds kMinElapsed(3);
  if (done <= 0 || elapsed < kMinElapsed)
    return "";
  constexpr double kSecondsOfMinute = 60, kMinutesOfHour = 60;
  // A time below two hours is shown in minutes, and a time below two minutes in
  // seconds.
  constexpr double kMinUnits = 2;
  const double seconds = std::chrono::duration<double>(elapsed).count() *
                         double(total - done) / double(done);
  const double minutes = seconds / kSecondsOfMinute;
  const double hours = minutes / kMinutesOfHour;
  if (hours >= kMinUnits)
    return fmt::format(", about {:.0f} h left", hours);
  if (minutes >= kMinUnits)
    return fmt::format(", about {:.0f} min left", minutes);
  return fmt::format(", about {:.0f} s left", seconds);
}

ProgressText::ProgressText(Style style, Clock::duration logInterval,
                           Clock::time_point start)
    : style(style),
      interval(style == Style::Log ? logInterval
                                   : std::chrono::milliseconds(100)),
      last(start) {}

std::string ProgressText::update(std::string_view what, int64_t done,
                                 int64_t total, Clock::time_point now) {
  auto at = steps.find(what);
  if (done == total) {
    if (at != steps.end())
      steps.erase(at);
    const bool clears = std::exchange(lineShown, false);
    return clears ? "\r\x1b[K" : "";
  }
  if (at == steps.end())
    at = steps.emplace(what, Step{now, now}).first;
  Step &step = at->second;
  // On a terminal, all steps share one line; in a log, each step has its own
  // lines.
  Clock::time_point &shown = style == Style::Log ? step.last : last;
  if (now - shown < interval)
    return "";
  shown = now;
  const std::string line =
      fmt::format("[{}/{}] {}{}", done, total, printable(what),
                  timeLeft(now - step.start, done, total));
  if (style == Style::Log)
    return line + "\n";
  lineShown = true;
  return "\r" + line + "\x1b[K";
}

ProgressDisplay::ProgressDisplay(std::FILE *file, Clock::duration logInterval)
    : text(::isatty(::fileno(file)) ? ProgressText::Style::Terminal
                                    : ProgressText::Style::Log,
           logInterval, Clock::now()) {
  isSink = offerProgressSink(
      [this, file](std::string_view what, int64_t done, int64_t total) {
        const std::string shown = text.update(what, done, total, Clock::now());
        if (shown.empty())
          return;
        std::fputs(shown.c_str(), file);
        std::fflush(file);
      });
}

ProgressDisplay::~ProgressDisplay() {
  if (isSink)
    setProgressSink({});
}
