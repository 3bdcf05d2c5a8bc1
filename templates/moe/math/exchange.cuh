//===- exchange.cuh - exchange between ranks --------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Data structures that kernels that wait for other ranks, the host device and
// the runtime share: the words at the start of every rank's window, and the
// block of host memory that a wait polls and to which it reports its end.
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
static_assert(sizeof(ExchangeBlock) == 40, "as kernels count its bytes");

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
  /// Word of a rank: epoch << 32 | tokens. The rank's rows have arrived.
  constexpr int arrived(int rank) const { return rank; }
  /// Word of a rank: epoch << 32 | tokens. The rank's sums have arrived.
  constexpr int done(int rank) const { return ranks + rank; }
  /// The window's own word: the epoch, which is incremented by the dispatch of
  /// each run.
  constexpr int epoch() const { return 3 * ranks; }
  /// Not 0 if a wait of this or another rank has ended early; outputs are then
  /// NaN.
  constexpr int broken() const { return 3 * ranks + 1; }
  constexpr int count() const { return 3 * ranks + 8; }
};

} // namespace moe
