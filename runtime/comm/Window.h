//===- Window.h - memory that all ranks write -------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A window is memory of one rank that kernels of all ranks write directly,
// without a communication library. Windows have the same size on all ranks.
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

/// This rank's window and the addresses of all other ranks' windows.
class Window {
public:
  virtual ~Window() = default;

  virtual int64_t rank() const = 0;  ///< the rank that owns this window
  virtual int64_t bytes() const = 0; ///< size of each rank's window
  /// Returns the address of every rank's window, including this rank's own.
  /// Kernels of this rank access the windows at these addresses.
  virtual std::span<const uint64_t> addresses() const = 0;
  /// peers() returns the device address of the table of addresses(). status()
  /// returns the device address of the exchange block.
  virtual uint64_t peers() const = 0;
  virtual uint64_t status() const = 0;
  /// Returns the exchange block in host memory. Kernels may write it at any
  /// time.
  virtual moe::ExchangeBlock &block() const = 0;
  /// Called before a rank writes and before it waits. Only tests with several
  /// ranks in one process override it, to delay the rank.
  virtual void delay() const {}

  uint64_t own() const { return addresses()[static_cast<size_t>(rank())]; }
  /// Returns PeerLost or PeerMismatch if a wait for a rank has failed. The
  /// message contains the rank and the step.
  Result<void> check() const;
  /// Ends all current and later waits.
  void abort() const;
};

/// All windows of a communicator that currently exist. Thread-safe.
class LiveWindows {
public:
  void add(const Window &window);
  void remove(const Window &window);
  /// Aborts all windows, and all windows that are added later.
  void abort();
  /// Returns the first error of any window that belongs to `rank`.
  Result<void> check(int64_t rank);

private:
  std::mutex mutex;
  std::vector<const Window *> windows;
  bool aborted = false;
};

} // namespace moec::comm

#endif // MOEC_RUNTIME_COMM_WINDOW_H
