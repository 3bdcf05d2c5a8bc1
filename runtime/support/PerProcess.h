//===- PerProcess.h - state that forked children reset ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// fork(2) copies only the calling thread. A lock that another thread holds
// stays locked in the child, and a promise of another thread is never
// fulfilled.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_SUPPORT_PERPROCESS_H
#define MOEC_RUNTIME_SUPPORT_PERPROCESS_H

#include <atomic>
#include <unistd.h>

namespace moec {

/// Returns the State of this process, created at the first call in it. It is
/// never destroyed, because threads may use it while the process ends, and the
/// parent's State may be in use at the fork.
template <typename State> State &perProcess() {
  struct Entry {
    Entry(pid_t process, Entry *parents) : process(process), parents(parents) {}
    pid_t process;
    Entry *parents; ///< keeps the parent's entry reachable for leak checkers
    State state;
  };
  // The pointer is constant-initialized, so there is no guard that a thread
  // could hold at a fork.
  static std::atomic<Entry *> current = nullptr;
  const pid_t process = ::getpid();
  Entry *entry = current.load(std::memory_order_acquire);
  while (!entry || entry->process != process) {
    auto *made = new Entry(process, entry);
    if (current.compare_exchange_strong(entry, made, std::memory_order_acq_rel))
      return made->state;
    delete made; // another thread was faster; `entry` is now its entry
  }
  return entry->state;
}

} // namespace moec

#endif // MOEC_RUNTIME_SUPPORT_PERPROCESS_H
