//===- exchange.cuh - synchronization of CTAs of slices ---------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Synchronization within and between CTAs that keep token rows
// (moe/matmul/slices/stationary.cuh). It consists of mbarriers within a CTA,
// counters in global memory between CTAs, and three loops that connect the two.
// One thread runs each loop. Only these threads access the counters; all others
// wait for mbarriers, so they do not poll global memory.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx.cuh"
#include "moe/core/ptx_async.cuh"
#include "moe/matmul/roles/ring.cuh"
#include "moe/matmul/slices/layout.cuh"
#include "moe/matmul/slices/rows.cuh"

namespace moe::detail {

template <class Config> struct StationaryExchange {
  using Args = typename Config::Args;
  using Schedule = typename Config::Schedule;
  using S = Stationary<Config>;

  const Args &args;
  unsigned shared;

  __device__ __forceinline__ RingBarriers<Schedule::kStages> ring() const {
    return {shared + S::kBarriers};
  }
  /// Returns the mbarrier of this CTA for event `what` of a slice buffer:
  ///
  ///   kStored  this CTA has stored its part of the slice
  ///   kReady   all CTAs have stored their parts of the slice
  ///   kSummed  this CTA has added the slice's partial sums for its tokens
  ///   kFree    all CTAs have done so, and the buffer may be overwritten
  __device__ __forceinline__ unsigned local(int what, int buffer) const {
    return ring().full(2 * Schedule::kStages + what * Schedule::kBuffers +
                       buffer);
  }
  enum { kStored, kReady, kSummed, kFree };
  __device__ __forceinline__ int *tilesDone(int buffer) const {
    return args.tile_count + S::kFirstCounter + buffer;
  }
  __device__ __forceinline__ int *sumsDone(int buffer) const {
    return tilesDone(Schedule::kBuffers + buffer);
  }
  __device__ __forceinline__ Segment segment(int index) const {
    unsigned words[4];
    ptx::loadShared(shared + S::kSegmentList + unsigned(index) * 16, words);
    return {int(words[0]), int(words[1]), int(words[2]), int(words[3])};
  }
  __device__ __forceinline__ int segments() const {
    return int(ptx::loadShared(shared + S::kSegmentList + S::kSegments * 16));
  }
  /// Initializes the mbarriers. One thread calls it before the __syncthreads()
  /// that precedes their use.
  __device__ __forceinline__ void initialize() const {
#pragma unroll 1
    for (int stage = 0; stage < Schedule::kStages; ++stage) {
      ptx::initializeBarrier(ring().full(stage), S::kStagesScales ? 2 : 1);
      ptx::initializeBarrier(ring().empty(stage), S::kConsumers / 32);
    }
#pragma unroll 1
    for (int buffer = 0; buffer < Schedule::kBuffers; ++buffer) {
      ptx::initializeBarrier(local(kStored, buffer), S::kConsumers / 32);
      ptx::initializeBarrier(local(kReady, buffer), 1);
      ptx::initializeBarrier(local(kSummed, buffer), S::kSumThreads / 32);
      ptx::initializeBarrier(local(kFree, buffer), 1);
    }
    ptx::publishBarriers();
  }

  /// Waits until every CTA has incremented a buffer's counter for the buffer's
  /// use number `uses` (from 0).
  static __device__ __forceinline__ void
  awaitAll(const int *counter, int uses,
           ptx::Waiter waiter = ptx::Waiter::here()) {
    ptx::waitForCount<40>(counter, (uses + 1) * int(gridDim.x),
                          "all CTAs signal in time", waiter);
  }
  /// Signals to all CTAs, slice by slice, that this CTA has stored its part.
  /// Run by one thread.
  __device__ __forceinline__ void tellStored() const {
#pragma unroll 1
    for (int slice = 0; slice < S::kSlices; ++slice) {
      int buffer = slice % Schedule::kBuffers,
          uses = slice / Schedule::kBuffers;
      ptx::waitForBarrier(local(kStored, buffer), unsigned(uses & 1));
      ptx::fenceCount();
      ptx::countUp(tilesDone(buffer));
    }
  }
  /// Waits, slice by slice, until all CTAs have stored their parts. Run by one
  /// thread.
  __device__ __forceinline__ void awaitStored() const {
#pragma unroll 1
    for (int slice = 0; slice < S::kSlices; ++slice) {
      int buffer = slice % Schedule::kBuffers,
          uses = slice / Schedule::kBuffers;
      awaitAll(tilesDone(buffer), uses);
      ptx::arrive(local(kReady, buffer));
    }
  }
  /// Slice by slice, signals to all CTAs that this CTA has added the partial
  /// sums for its tokens, then waits until all CTAs have done so. Run by one
  /// thread.
  __device__ __forceinline__ void exchangeSummed() const {
#pragma unroll 1
    for (int slice = 0; slice + Schedule::kBuffers < S::kSlices; ++slice) {
      int buffer = slice % Schedule::kBuffers,
          uses = slice / Schedule::kBuffers;
      ptx::waitForBarrier(local(kSummed, buffer), unsigned(uses & 1));
      ptx::fenceCount();
      ptx::countUp(sumsDone(buffer));
      awaitAll(sumsDone(buffer), uses);
      ptx::arrive(local(kFree, buffer));
    }
  }
};

} // namespace moe::detail
