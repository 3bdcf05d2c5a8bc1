//===- Interrupt.cpp - interrupts long operations -------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/support/Interrupt.h"

#include <atomic>
#include <csignal>
#include <iterator>
#include <mutex>
#include <utility>

using namespace moec;

namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

/// The signal that was caught, or 0.
std::atomic<int> caught = 0;
static_assert(std::atomic<int>::is_always_lock_free);
struct sigaction earlier[std::size(kSignals)];

void onSignal(int signal) {
  if (caught != 0) {
    // After a second signal, the process ends as it would without this handler.
    for (size_t i = 0; i < std::size(kSignals); ++i)
      if (kSignals[i] == signal)
        ::sigaction(signal, &earlier[i], nullptr);
    ::raise(signal);
    return;
  }
  caught = signal;
}

/// The interrupt source. It is never destroyed, because another thread may hold
/// the mutex during a fork.
struct Source {
  std::mutex mutex;
  InterruptSource function;
};

Source &theSource() {
  static auto *source = new Source;
  return *source;
}

/// Counts the existing SignalsInterrupt objects.
struct Catchers {
  std::mutex mutex;
  int count = 0;
};

Catchers &theCatchers() {
  static auto *catchers = new Catchers;
  return *catchers;
}

} // namespace

void moec::setInterruptSource(InterruptSource source) {
  Source &all = theSource();
  std::lock_guard lock(all.mutex);
  all.function = std::move(source);
}

bool moec::isInterrupted() {
  if (caught != 0)
    return true;
  InterruptSource function;
  {
    Source &all = theSource();
    std::lock_guard lock(all.mutex);
    function = all.function;
  }
  return function && function();
}

SignalsInterrupt::SignalsInterrupt() {
  std::lock_guard lock(theCatchers().mutex);
  if (theCatchers().count++ > 0)
    return;
  caught = 0;
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    ::sigaction(kSignals[i], nullptr, &earlier[i]);
    if (earlier[i].sa_handler == SIG_IGN)
      continue;
    struct sigaction action = {};
    action.sa_handler = onSignal;
    ::sigaction(kSignals[i], &action, nullptr);
  }
}

SignalsInterrupt::~SignalsInterrupt() {
  std::lock_guard lock(theCatchers().mutex);
  if (--theCatchers().count > 0)
    return;
  for (size_t i = 0; i < std::size(kSignals); ++i)
    ::sigaction(kSignals[i], &earlier[i], nullptr);
  const int signal = caught.exchange(0);
  if (signal != 0)
    ::raise(signal);
}
