//===- exchange.cuh - exchange between ranks --------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Data structures shared by the runtime, the host device and the kernels that
// wait for other ranks: the words at the start of every rank's window, and a
// block of host memory. A waiting kernel polls this block for an abort request
// and reports to it why the wait ended.
//
//===----------------------------------------------------------------------===//

#pragma once

namespace moe {

/// Host memory that the device can access. Each window has one block.
struct ExchangeBlock {
  unsigned abort; ///< not 0: all waits end
  /// An ExchangeEnd. It is written after the other members, and is final once
  /// it is not 0.
  unsigned code;
  unsigned peer;            ///< the rank that the wait was for
  unsigned phase;           ///< an ExchangePhase
  unsigned long long epoch; ///< the number of the run
  unsigned long long timeoutNs;
  unsigned peerTokens, ownTokens; ///< set with OtherTokens
};
static_assert(sizeof(ExchangeBlock) == 40, "kernels assume a size of 40 bytes");

/// The reasons for which a wait ends although ranks are missing.
enum class ExchangeEnd : unsigned {
  None = 0,
  Late = 1,        ///< the wait exceeded timeoutNs
  Aborted = 2,     ///< the host set `abort`
  OtherTokens = 3, ///< a rank runs with a different token count
  PeerBroke = 4,   ///< another rank has ended its wait
};

enum class ExchangePhase : unsigned { Dispatch = 1, SendBack = 2 };

/// Indices of the 64-bit words at the start of a window. `ranks`: number of
/// ranks of the window. Each rank writes the words of its own rank number to
/// the windows of all ranks.
struct ExchangeWords {
  int ranks;
  /// Index of the word that rank `rank` sets to epoch << 32 | tokens once its
  /// rows have arrived in this window.
  constexpr int arrived(int rank) const { return rank; }
  /// Index of the word that rank `rank` sets to epoch << 32 | tokens once its
  /// partial sums have arrived in this window.
  constexpr int done(int rank) const { return ranks + rank; }
  /// Index of the word for the window's own epoch. Each run's dispatch
  /// increments the epoch.
  constexpr int epoch() const { return 3 * ranks; }
  /// Index of a word that is not 0 if a wait of this or another rank has ended
  /// early. Outputs are then NaN.
  constexpr int broken() const { return 3 * ranks + 1; }
  constexpr int count() const { return 3 * ranks + 8; }
};

} // namespace moe
