//===- Window.cpp - memory that all ranks write ---------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Converts the state in a window's exchange block to errors.
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/Window.h"

#include <atomic>
#include <fmt/core.h>

using namespace moec;
using namespace moec::comm;
using moe::ExchangeEnd;
using moe::ExchangePhase;

/// Describes the step in which a rank waited, given its ExchangePhase.
static std::string_view stepOf(unsigned phase) {
  return static_cast<ExchangePhase>(phase) == ExchangePhase::SendBack
             ? "send its sums back"
             : "send its tokens";
}

Result<void> Window::check() const {
  moe::ExchangeBlock &found = block();
  // The device writes `code` last, with release semantics. If it is not zero,
  // all other members are valid.
  const unsigned code =
      std::atomic_ref(found.code).load(std::memory_order_acquire);
  const std::string run = fmt::format("in run {} of the context", found.epoch);
  switch (static_cast<ExchangeEnd>(code)) {
  case ExchangeEnd::None:
    if (std::atomic_ref(found.abort).load(std::memory_order_acquire))
      return Error(ErrorCode::PeerLost, "rank {} was told to end", rank());
    return {};
  case ExchangeEnd::Late:
    return Error(ErrorCode::PeerLost,
                 "rank {} waited {} ms for rank {} to {} {}", rank(),
                 found.timeoutNs / 1000000, found.peer, stepOf(found.phase),
                 run);
  case ExchangeEnd::Aborted:
    return Error(ErrorCode::PeerLost,
                 "rank {} was told to end, while it waited for rank {} to {} "
                 "{}",
                 rank(), found.peer, stepOf(found.phase), run);
  case ExchangeEnd::OtherTokens:
    return Error(ErrorCode::PeerMismatch,
                 "rank {} runs with {} tokens, and rank {} with {}, {}", rank(),
                 found.ownTokens, found.peer, found.peerTokens, run);
  case ExchangeEnd::PeerBroke:
    return Error(ErrorCode::PeerLost,
                 "another rank ended the exchange of rank {} {}; its own error "
                 "gives the reason",
                 rank(), run);
  }
  return Error(ErrorCode::Internal,
               "the exchange of rank {} ended with the unknown code {}", rank(),
               code);
}

void Window::abort() const {
  std::atomic_ref(block().abort).store(1, std::memory_order_release);
}

void LiveWindows::add(const Window &window) {
  const std::lock_guard<std::mutex> lock(mutex);
  windows.push_back(&window);
  if (aborted)
    window.abort();
}

void LiveWindows::remove(const Window &window) {
  const std::lock_guard<std::mutex> lock(mutex);
  std::erase(windows, &window);
}

void LiveWindows::abort() {
  const std::lock_guard<std::mutex> lock(mutex);
  aborted = true;
  for (const Window *window : windows)
    window->abort();
}

Result<void> LiveWindows::check(int64_t rank) {
  const std::lock_guard<std::mutex> lock(mutex);
  for (const Window *window : windows)
    if (window->rank() == rank)
      TRY(window->check());
  return {};
}
