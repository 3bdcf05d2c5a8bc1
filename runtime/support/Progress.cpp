//===- Progress.cpp - progress of long operations -------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/support/Progress.h"

#include <mutex>

using namespace moec;

static std::atomic<bool> hasSink = false;
static std::mutex mutex;

static ProgressSink &theSink() {
  static ProgressSink sink;
  return sink;
}

void moec::setProgressSink(ProgressSink sink) {
  std::lock_guard lock(mutex);
  theSink() = std::move(sink);
  hasSink = static_cast<bool>(theSink());
}

bool moec::offerProgressSink(ProgressSink sink) {
  std::lock_guard lock(mutex);
  if (theSink())
    return false;
  theSink() = std::move(sink);
  hasSink = static_cast<bool>(theSink());
  return true;
}

static void show(std::string_view what, int64_t done, int64_t total) {
  if (!hasSink)
    return;
  std::lock_guard lock(mutex);
  if (theSink())
    theSink()(what, done, total);
}

static thread_local int quietOnes = 0;

QuietProgress::QuietProgress() { ++quietOnes; }
QuietProgress::~QuietProgress() { --quietOnes; }

Progress::Progress(std::string_view what, int64_t total)
    : what(what), total(total), quiet(quietOnes > 0) {
  if (total > 0 && !quiet)
    show(what, 0, total);
}

void Progress::advance(int64_t count) {
  const int64_t now = done += count;
  if (now < total && !quiet)
    show(what, now, total);
}

Progress::~Progress() {
  if (!quiet)
    show(what, total, total);
}
