//===- Exchange.cpp - exchange of rows between ranks ----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The writing rank stores a word of the window with release semantics, and the
// waiting rank loads it with acquire semantics. Hence the rows themselves need
// no other synchronization.
//
//===----------------------------------------------------------------------===//

#include "runtime/host/Exchange.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

using namespace moec;
using namespace moec::host;
using moe::ExchangeEnd;
using moe::ExchangePhase;

//===----------------------------------------------------------------------===//
// Owners
//===----------------------------------------------------------------------===//

Result<Owners> Owners::of(const KernelRun &run) {
  Owners owners;
  owners.ranks = run.integer("ranks");
  owners.experts = run.integer("experts");
  owners.pairs = run.integer("pairs");
  if (owners.ranks < 2 || owners.ranks > kMostWindowRanks)
    return run.fail("expected 2 to {} ranks, got {}", kMostWindowRanks,
                    owners.ranks);
  if (owners.pairs < 1)
    return run.fail("expected pairs of at least 1, got {}", owners.pairs);
  if (owners.experts != 0 && owners.experts < owners.ranks)
    return run.fail("expected an expert for each of {} ranks, got {}",
                    owners.ranks, owners.experts);
  return owners;
}

int64_t Owners::most() const {
  return moe::mostOwners(int(experts), int(ranks), int(pairs));
}

Result<std::vector<Owners::Set>>
Owners::ofTokens(const KernelRun &run, const View &ids, int64_t tokens) const {
  std::vector<Set> sets(static_cast<size_t>(tokens));
  for (int64_t token = 0; token < tokens; ++token)
    for (int64_t pair = 0; pair < pairs; ++pair) {
      const int64_t id = ids.integer(token, pair);
      if (experts > 0 && id >= experts)
        return run.fail("expected ids below {}, got {} for token {}", experts,
                        id, token);
      moe::addOwner(sets[size_t(token)], int(id), int(experts), int(ranks));
    }
  return sets;
}

void host::copyRow(const View &source, int64_t from, const View &target,
                   int64_t to) {
  std::memcpy(target.at(to), source.at(from),
              size_t(storageBytes(source.storage, source.columns)));
}

//===----------------------------------------------------------------------===//
// Synchronization words
//===----------------------------------------------------------------------===//

bool host::isBroken(const View &words, int64_t ranks) {
  auto *first = reinterpret_cast<uint64_t *>(words.data);
  return std::atomic_ref(first[moe::ExchangeWords{int(ranks)}.broken()])
             .load(std::memory_order_acquire) != 0;
}

Result<Meeting> Meeting::of(KernelRun &run, ExchangePhase phase,
                            int64_t ranks) {
  const int64_t count = moe::ExchangeWords{int(ranks)}.count();
  const View words = TRY(run.needed("exchange_words", 1, count));
  if (!run.window || std::cmp_not_equal(run.window->addresses().size(), ranks))
    return run.fail("expected the windows of {} ranks, got {}", ranks,
                    run.window ? run.window->addresses().size() : 0);
  if (reinterpret_cast<uint64_t>(words.data) != run.window->own() ||
      words.storage != Storage::I64)
    return run.fail("expected exchange_words (i64) at the start of the window");
  if (TRY(run.ofRank("rank", -1)) != run.window->rank())
    return run.fail("expected the rank of the window, {}, got {}",
                    run.window->rank(), TRY(run.ofRank("rank", -1)));
  return Meeting(*run.window, phase, ranks);
}

uint64_t &Meeting::wordIn(int64_t rank, int word) const {
  return reinterpret_cast<uint64_t *>(
      window.addresses()[static_cast<size_t>(rank)])[word];
}

int Meeting::wordOf(int64_t rank) const {
  return phase == ExchangePhase::Dispatch ? layout.arrived(int(rank))
                                          : layout.done(int(rank));
}

bool Meeting::isBroken() const {
  window.delay();
  return std::atomic_ref(wordIn(window.rank(), layout.broken()))
             .load(std::memory_order_acquire) != 0;
}

void Meeting::tell(int word, uint64_t value) const {
  for (int64_t rank = 0; rank < layout.ranks; ++rank)
    std::atomic_ref(wordIn(rank, word)).store(value, std::memory_order_release);
}

void Meeting::end(int64_t tokens) {
  std::atomic_ref epochWord(wordIn(window.rank(), layout.epoch()));
  uint64_t epoch = epochWord.load(std::memory_order_relaxed);
  // The dispatch is the first exchange of a run, so it starts a new epoch.
  if (phase == ExchangePhase::Dispatch)
    epochWord.store(++epoch, std::memory_order_relaxed);
  const uint64_t value = epoch << 32 | static_cast<uint32_t>(tokens);
  if (isBroken()) {
    record(ExchangeEnd::PeerBroke, window.rank(), epoch, 0, value);
    return;
  }
  tell(wordOf(window.rank()), value);
  window.delay();
  for (int64_t rank = 0; rank < layout.ranks; ++rank) {
    uint64_t seen = 0;
    const ExchangeEnd why = waitFor(rank, value, seen);
    if (why == ExchangeEnd::None)
      continue;
    record(why, rank, epoch, seen, value);
    tell(layout.broken(), 1);
    return;
  }
}

ExchangeEnd Meeting::waitFor(int64_t rank, uint64_t value,
                             uint64_t &seen) const {
  constexpr auto kPause = std::chrono::microseconds(20);
  constexpr int kPolls = 64; // polls between two checks of the clock
  std::atomic_ref word(wordIn(window.rank(), wordOf(rank)));
  std::atomic_ref broken(wordIn(window.rank(), layout.broken()));
  moe::ExchangeBlock &block = window.block();
  const auto deadline = std::chrono::steady_clock::now() +
                        std::chrono::nanoseconds(block.timeoutNs);
  for (int polls = 1;; ++polls) {
    seen = word.load(std::memory_order_acquire);
    if (seen >> 32 == value >> 32)
      return seen == value ? ExchangeEnd::None : ExchangeEnd::OtherTokens;
    if (polls < kPolls) {
      std::this_thread::yield();
      continue;
    }
    if (std::atomic_ref(block.abort).load(std::memory_order_acquire) != 0)
      return ExchangeEnd::Aborted;
    if (broken.load(std::memory_order_acquire) != 0)
      return ExchangeEnd::PeerBroke;
    if (std::chrono::steady_clock::now() >= deadline)
      return ExchangeEnd::Late;
    std::this_thread::sleep_for(kPause);
    polls = 0;
  }
}

void Meeting::record(ExchangeEnd why, int64_t of, uint64_t epoch, uint64_t seen,
                     uint64_t own) const {
  moe::ExchangeBlock &block = window.block();
  std::atomic_ref code(block.code);
  if (code.load(std::memory_order_acquire) != 0)
    return;
  block.peer = static_cast<unsigned>(of);
  block.phase = static_cast<unsigned>(phase);
  block.epoch = epoch;
  block.peerTokens = static_cast<unsigned>(seen);
  block.ownTokens = static_cast<unsigned>(own);
  code.store(static_cast<unsigned>(why), std::memory_order_release);
}
