//===- Exchange.h - ranks that write for each other -------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to runtime/host: what stages between ranks share. The protocol is
// that of the kernels (templates/moe/exchange/meet.cuh).
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_HOST_EXCHANGE_H
#define MOEC_RUNTIME_HOST_EXCHANGE_H

#include "runtime/host/KernelRun.h"
#include "runtime/package/Limits.h"
#include "templates/moe/math/host.h"

namespace moec::host {

/// The owners of tokens, by the attributes of a stage.
struct Owners {
  using Set = moe::RankSet<int(kMostWindowRanks)>;
  int64_t ranks = 0, experts = 0, pairs = 0;

  static Result<Owners> of(const KernelRun &run);
  /// Owners of a token at most.
  int64_t most() const;
  /// The owners of each token. `ids` are [tokens, pairs].
  Result<std::vector<Set>> ofTokens(const KernelRun &run, const View &ids,
                                    int64_t tokens) const;
};

/// Copies row `from` of a matrix to row `to` of another with as many columns.
void copyRow(const View &source, int64_t from, const View &target, int64_t to);

/// The end of a stage, where ranks tell each other that they are so far.
class Meeting {
public:
  static Result<Meeting> of(KernelRun &run, moe::ExchangePhase phase,
                            int64_t ranks);
  /// Whether nobody writes to others. Calls the delay of tests.
  bool isBroken() const;
  /// Tells all ranks that what they get is there, and waits for what this one
  /// gets. `tokens`: those that a rank brings.
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

/// Whether a window is broken, by its words.
bool isBroken(const View &words, int64_t ranks);

} // namespace moec::host

#endif // MOEC_RUNTIME_HOST_EXCHANGE_H
