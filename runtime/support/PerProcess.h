//===- PerProcess.h - state that a forked child begins anew -----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// fork(2) copies one thread. A lock that another one held stays locked in the
// child, and what it promised never comes.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_SUPPORT_PERPROCESS_H
#define MOEC_RUNTIME_SUPPORT_PERPROCESS_H

#include <atomic>
#include <unistd.h>

namespace moec {

/// The State of this process, made at the first call in it. It is never
/// destroyed: threads may use it while the process ends, and that of a parent
/// may be in use at the fork.
template <typename State> State &perProcess() {
  struct Entry {
    Entry(pid_t process, Entry *parents) : process(process), parents(parents) {}
    pid_t process;
    Entry *parents; ///< reachable, so that no tool takes it for a leak
    State state;
  };
  // Constant-initialized, so that there is no guard to be held at a fork.
  static std::atomic<Entry *> current = nullptr;
  const pid_t process = ::getpid();
  Entry *entry = current.load(std::memory_order_acquire);
  while (!entry || entry->process != process) {
    auto *made = new Entry(process, entry);
    if (current.compare_exchange_strong(entry, made, std::memory_order_acq_rel))
      return made->state;
    delete made; // another thread was faster; `entry` is its
  }
  return entry->state;
}

} // namespace moec

#endif // MOEC_RUNTIME_SUPPORT_PERPROCESS_H
