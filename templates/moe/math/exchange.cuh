//===- exchange.cuh - what ranks tell each other ----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Kernels that wait for other ranks, the host device and the runtime share
// these: the words at the begin of every rank's window, and the block of host
// memory that a wait looks at and writes its end to.
//
//===----------------------------------------------------------------------===//

#pragma once

namespace moe {

/// Memory of the host that the device reaches; one for each window.
struct ExchangeBlock {
  unsigned abort; ///< not 0: nobody waits any longer
  /// An ExchangeEnd. Written behind the rest, and no more once it is not 0.
  unsigned code;
  unsigned peer;            ///< the rank that was waited for
  unsigned phase;           ///< an ExchangePhase
  unsigned long long epoch; ///< of the run
  unsigned long long timeoutNs;
  unsigned peerTokens, ownTokens; ///< of OtherTokens
};
static_assert(sizeof(ExchangeBlock) == 40, "as kernels count its bytes");

/// Why a wait has ended without its ranks.
enum class ExchangeEnd : unsigned {
  None = 0,
  Late = 1,        ///< longer than timeoutNs
  Aborted = 2,     ///< the host wrote `abort`
  OtherTokens = 3, ///< a rank runs with another token count
  PeerBroke = 4,   ///< another rank has ended its wait
};

enum class ExchangePhase : unsigned { Dispatch = 1, SendBack = 2 };

/// Indices of the 64-bit words at the begin of a window of so many ranks. Each
/// rank writes the word of its number into the windows of all.
struct ExchangeWords {
  int ranks;
  /// Epoch << 32 | tokens: the rank's rows are there.
  constexpr int arrived(int rank) const { return rank; }
  /// The same: the rank's sums are there.
  constexpr int done(int rank) const { return ranks + rank; }
  /// The window's own: the number of the run, raised by its dispatch.
  constexpr int epoch() const { return 3 * ranks; }
  /// Not 0: a wait of this or another rank ended, and outputs are NaN.
  constexpr int broken() const { return 3 * ranks + 1; }
  constexpr int count() const { return 3 * ranks + 8; }
};

} // namespace moe
