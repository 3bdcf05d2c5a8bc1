//===- Window.h - memory that ranks write for each other --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A rank's window is written by kernels of all ranks, without a library that
// moves anything. It is as large on every rank.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_COMM_WINDOW_H
#define MOEC_RUNTIME_COMM_WINDOW_H

#include "runtime/support/Result.h"
#include "templates/moe/math/exchange.cuh"

#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

namespace moec::comm {

class Window {
public:
  virtual ~Window() = default;

  virtual int64_t rank() const = 0;  ///< whose it is
  virtual int64_t bytes() const = 0; ///< of each rank's
  /// The window of each rank as kernels of this one find it; its own, too.
  virtual std::span<const uint64_t> addresses() const = 0;
  /// The device addresses of these addresses and of the block.
  virtual uint64_t peers() const = 0;
  virtual uint64_t status() const = 0;
  /// The host's view of the block. Kernels write it at any time.
  virtual moe::ExchangeBlock &block() const = 0;
  /// Called by each rank of one process before it writes and before it waits,
  /// for tests.
  virtual void delay() const {}

  uint64_t own() const { return addresses()[static_cast<size_t>(rank())]; }
  /// PeerLost or PeerMismatch where a wait ended without its ranks, with the
  /// rank and what it was to do.
  Result<void> check() const;
  /// Lets waits end, and all later ones.
  void abort() const;
};

/// Windows of a communicator that are in use.
class LiveWindows {
public:
  void add(const Window &window);
  void remove(const Window &window);
  /// Aborts all, and those that are added later.
  void abort();
  /// The first error of windows of a rank.
  Result<void> check(int64_t rank);

private:
  std::mutex mutex;
  std::vector<const Window *> windows;
  bool aborted = false;
};

} // namespace moec::comm

#endif // MOEC_RUNTIME_COMM_WINDOW_H
