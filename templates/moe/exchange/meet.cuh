//===- meet.cuh - the end of a kernel that sends rows -----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// When all CTAs of a kernel have stored their rows, the last one writes a word
// to the window of every rank, and waits for the words of all ranks in its own
// window. Only then does the kernel end, so the next kernel finds the rows of
// all ranks. Only one CTA waits, so the other CTAs free their resources for
// other kernels, and no CTA that sends waits. Such a kernel does not let its
// dependent launch start before its end: the CTAs of that launch would occupy
// the resources for another rank's sends on this GPU.
//
// If a wait times out, or the host aborts it, the wait ends with a record for
// the host and marks the windows of all ranks as broken. From then on no rank
// writes to other ranks or waits, and outputs are NaN. The CUDA context stays
// usable.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx_peer.cuh"
#include "moe/exchange/windows.cuh"

namespace moe::exchange {

/// The end of a kernel, at which all ranks synchronize.
template <class Config> class Meeting {
public:
  /// Reads only words that the predecessor does not write, because the
  /// constructor runs before the wait for the predecessor.
  template <class Args>
  __device__ __forceinline__ Meeting(const Args &args, ExchangePhase phase)
      : windows(args.peers, args.exchange_words), words(args.exchange_words),
        counter(args.exchange_counter), block(args.status), rank(args.rank),
        phase(phase),
        broken(ptx::loadRelaxed(args.exchange_words + layout().broken()) != 0),
        epoch(ptx::loadRelaxed(args.exchange_words + layout().epoch())) {
    // The dispatch starts a new run.
    epoch += phase == ExchangePhase::Dispatch ? 1 : 0;
  }

  /// Returns true if a window is broken, so that no rank writes to other ranks.
  __device__ __forceinline__ bool isBroken() const { return broken; }

  /// Synchronizes the ranks. All threads of all CTAs must call it after their
  /// stores. `tokens`: number of tokens per rank.
  __device__ __forceinline__ void end(int tokens) {
    // A warp that found the window broken has skipped rows, so this CTA must
    // not be counted and no CTA becomes the last one. The host of this rank has
    // no record of the failure yet.
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
  /// The number of polls between two checks of the clock and of the host.
  static constexpr unsigned kPolls = 1024;
  static constexpr unsigned kPauseNanoseconds = 32;

  __device__ __forceinline__ int wordOf(int of) const {
    return phase == ExchangePhase::Dispatch ? layout().arrived(of)
                                            : layout().done(of);
  }

  /// Writes `value` to the word with index `word` in the windows of all ranks.
  /// One warp calls it. The release orders the write after all stores of this
  /// CTA and of the CTAs that were counted before.
  __device__ __forceinline__ void tell(int word, unsigned long long value) {
#pragma unroll 1
    for (int other = int(threadIdx.x); other < Config::kRanks; other += 32)
      ptx::storeRelease(windows.in(other, words + word), value);
  }

  /// Waits until the words of all ranks have `value`. One warp calls it.
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

  /// Polls the word of one rank until it has the epoch of `value`, or until
  /// the wait has to end. Returns the reason for which the wait failed, or
  /// None. `seen`: the last value read.
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

  /// Writes the record for the host, unless an earlier record exists.
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
  unsigned long long epoch; ///< epoch of the run
};

} // namespace moe::exchange
