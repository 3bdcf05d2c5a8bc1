//===- meet.cuh - the end of a kernel that writes for others ----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// When all CTAs of a kernel have stored their rows, the last one tells every
// rank so by a word in its window, and waits for the words of all ranks in its
// own. Only then does the kernel end: what comes behind it finds the rows of
// all ranks. One CTA waits, so that others find room, and nothing that sends
// waits. Such a kernel never lets its successor start earlier than its end: the
// successor's CTAs would take the room of another rank's sends on this GPU.
//
// A wait that is too long, or that the host aborts, ends with a record for the
// host and marks the windows of all ranks as broken. Then nobody writes to
// others or waits any more, and outputs are NaN; the GPU's context lives.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx_peer.cuh"
#include "moe/exchange/windows.cuh"

namespace moe::exchange {

/// The end of a kernel, where ranks tell each other that they are so far.
template <class Config> class Meeting {
public:
  /// Reads words that the predecessor does not write: there was no wait for it
  /// yet.
  template <class Args>
  __device__ __forceinline__ Meeting(const Args &args, ExchangePhase phase)
      : windows(args.peers, args.exchange_words), words(args.exchange_words),
        counter(args.exchange_counter), block(args.status), rank(args.rank),
        phase(phase),
        broken(ptx::loadRelaxed(args.exchange_words + layout().broken()) != 0),
        epoch(ptx::loadRelaxed(args.exchange_words + layout().epoch())) {
    // The dispatch begins a run.
    epoch += phase == ExchangePhase::Dispatch ? 1 : 0;
  }

  /// Whether nobody writes to others.
  __device__ __forceinline__ bool isBroken() const { return broken; }

  /// Called by all threads of all CTAs behind their stores. `tokens`: those
  /// that a rank brings.
  __device__ __forceinline__ void end(int tokens) {
    // A warp that found the window broken has left rows out, so that no CTA may
    // be the last. The host of this rank does not know of it yet.
    if (__syncthreads_or(broken)) {
      if (threadIdx.x == 0)
        record(ExchangeEnd::PeerBroke, rank, 0, unsigned(tokens));
      return;
    }
    __shared__ bool isLast;
    if (threadIdx.x == 0)
      isLast =
          gridDim.x == 1 || ptx::countCta(counter, gridDim.x) == gridDim.x - 1;
    __syncthreads();
    if (!isLast || threadIdx.x >= 32)
      return;
    unsigned long long value = epoch << 32 | (unsigned long long)tokens;
    tell(wordOf(rank), value);
    wait(value);
    if (phase == ExchangePhase::Dispatch && threadIdx.x == 0)
      words[layout().epoch()] = epoch;
  }

private:
  static constexpr ExchangeWords layout() { return {Config::kRanks}; }
  /// Polls between two looks at the clock and at the host.
  static constexpr unsigned kPolls = 1024;
  static constexpr unsigned kPauseNanoseconds = 32;

  __device__ __forceinline__ int wordOf(int of) const {
    return phase == ExchangePhase::Dispatch ? layout().arrived(of)
                                            : layout().done(of);
  }

  /// Writes a word of all windows, by one warp. It follows all that the CTA
  /// knows of: what its threads stored, and other CTAs before they were
  /// counted.
  __device__ __forceinline__ void tell(int word, unsigned long long value) {
#pragma unroll 1
    for (int other = int(threadIdx.x); other < Config::kRanks; other += 32)
      ptx::storeRelease(windows.in(other, words + word), value);
  }

  /// Waits for the words of all ranks, by one warp.
  __device__ __forceinline__ void wait(unsigned long long value) {
    ExchangeEnd why = ExchangeEnd::None;
    int of = 0;
    unsigned long long seen = 0;
#pragma unroll 1
    for (int other = int(threadIdx.x);
         other < Config::kRanks && why == ExchangeEnd::None; other += 32) {
      of = other;
      why = waitFor(words + wordOf(other), value, seen);
    }
    unsigned ended = __ballot_sync(0xffffffffu, why != ExchangeEnd::None);
    if (ended == 0)
      return;
    if (int(threadIdx.x) == __ffs(int(ended)) - 1)
      record(why, of, unsigned(seen), unsigned(value));
    __syncwarp();
    tell(layout().broken(), 1);
  }

  __device__ __forceinline__ ExchangeEnd
  waitFor(const unsigned long long *word, unsigned long long value,
          unsigned long long &seen) const {
    unsigned long long deadline = 0;
    unsigned polls = 0;
#pragma unroll 1
    while (true) {
      seen = ptx::loadAcquire(word);
      if (seen >> 32 == value >> 32)
        return seen == value ? ExchangeEnd::None : ExchangeEnd::OtherTokens;
      ptx::pause(kPauseNanoseconds);
      if (++polls % kPolls != 0)
        continue;
      unsigned long long now = ptx::nanoseconds();
      if (deadline == 0)
        deadline = now + block->timeoutNs;
      if (ptx::loadRelaxed(&block->abort) != 0)
        return ExchangeEnd::Aborted;
      if (ptx::loadRelaxed(words + layout().broken()) != 0)
        return ExchangeEnd::PeerBroke;
      if (now >= deadline)
        return ExchangeEnd::Late;
    }
  }

  /// Tells the host, unless it knows of an earlier end.
  __device__ __forceinline__ void record(ExchangeEnd why, int of, unsigned seen,
                                         unsigned own) {
    if (ptx::loadRelaxed(&block->code) != 0)
      return;
    block->peer = unsigned(of);
    block->phase = unsigned(phase);
    block->epoch = epoch;
    block->peerTokens = seen;
    block->ownTokens = own;
    ptx::storeRelease(&block->code, unsigned(why));
  }

  Windows windows;
  unsigned long long *words;
  unsigned *counter;
  ExchangeBlock *block;
  int rank;
  ExchangePhase phase;
  bool broken;
  unsigned long long epoch; ///< of the run
};

} // namespace moe::exchange
