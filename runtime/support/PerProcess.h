//===- PerProcess.h - state that forked children reset ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// State that a forked child does not inherit. fork(2) copies only the calling
// thread. In the child, a lock that another thread held would stay locked, and
// a promise of another thread would never be fulfilled.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_SUPPORT_PERPROCESS_H
#define MOEC_RUNTIME_SUPPORT_PERPROCESS_H

#include <atomic>
#include <unistd.h>

namespace moec {

/// Returns the State of this process. It is created at the first call in this
/// process. It is never destroyed, because threads may use it while the process
/// exits. A forked child does not destroy the parent's State either, because
/// the State may have been in use during the fork.
template <typename State> State &perProcess() {
  struct Entry {
    Entry(pid_t process, Entry *parents) : process(process), parents(parents) {}
    pid_t process;
    Entry *parents; ///< keeps the parent's entry reachable for leak checkers
    State state;
  };
  // The pointer is constant-initialized, so there is no initialization guard
  // that a thread could hold during a fork.
  static std::atomic<Entry *> current = nullptr;
  const pid_t process = ::getpid();
  Entry *entry = current.load(std::memory_order_acquire);
  while (!entry || entry->process != process) {
    auto *made = new Entry(process, entry);
    if (current.compare_exchange_strong(entry, made, std::memory_order_acq_rel))
      return made->state;
    delete made; // another thread was faster; `entry` is now that thread's
                 // entry
  }
  return entry->state;
}

} // namespace moec

#endif // MOEC_RUNTIME_SUPPORT_PERPROCESS_H
