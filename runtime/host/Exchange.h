//===- Exchange.h - exchange of rows between ranks --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to runtime/host: shared by the stages that exchange data between
// ranks. The protocol is the same as in the kernels
// (templates/moe/exchange/meet.cuh).
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_HOST_EXCHANGE_H
#define MOEC_RUNTIME_HOST_EXCHANGE_H

#include "runtime/host/KernelRun.h"
#include "runtime/package/Limits.h"
#include "templates/moe/math/host.h"

namespace moec::host {

/// The rule that maps tokens to their owners. An owner of a token is a rank
/// that has one of the token's experts. The fields are read from a stage's
/// attributes.
struct Owners {
  using Set = moe::RankSet<int(kMostWindowRanks)>;
  int64_t ranks = 0, experts = 0, pairs = 0;

  static Result<Owners> of(const KernelRun &run);
  /// Returns the maximum number of owners that a token can have.
  int64_t most() const;
  /// Returns the owners of each token. `ids`: [tokens, pairs].
  Result<std::vector<Set>> ofTokens(const KernelRun &run, const View &ids,
                                    int64_t tokens) const;
};

/// Copies row `from` of `source` to row `to` of `target`. `source` and `target`
/// have the same number of columns.
void copyRow(const View &source, int64_t from, const View &target, int64_t to);

/// The synchronization of all ranks at the end of a stage.
class Meeting {
public:
  static Result<Meeting> of(KernelRun &run, moe::ExchangePhase phase,
                            int64_t ranks);
  /// Returns true if the exchange has failed. Ranks then no longer write to
  /// each other. Also calls the window's delay hook, which tests use.
  bool isBroken() const;
  /// Signals to all ranks that this rank's rows have been written, then waits
  /// for the signals of all ranks. `tokens`: number of tokens of each rank.
  void end(int64_t tokens);

private:
  Meeting(const comm::Window &window, moe::ExchangePhase phase, int64_t ranks)
      : window(window), phase(phase), layout{int(ranks)} {}
  uint64_t &wordIn(int64_t rank, int word) const;
  void tell(int word, uint64_t value) const;
  moe::ExchangeEnd waitFor(int64_t rank, uint64_t value, uint64_t &seen) const;
  void record(moe::ExchangeEnd why, int64_t of, uint64_t epoch, uint64_t seen,
              uint64_t own) const;
  int wordOf(int64_t rank) const;

  const comm::Window &window;
  moe::ExchangePhase phase;
  moe::ExchangeWords layout;
};

/// Returns true if the window's synchronization words report that the exchange
/// has failed.
bool isBroken(const View &words, int64_t ranks);

} // namespace moec::host

#endif // MOEC_RUNTIME_HOST_EXCHANGE_H
