//===- stationary.cuh - token rows stay, weights stream ---------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The second matmul of a layer and its combine in one persistent kernel, for
// many tokens. All CTAs are resident at the same time.
//
//   Input:   the sorted rows of lhs, the experts' weights, and for each token
//            its pairs (sorted rows) and their top-k weights
//   Output:  for each token, the weighted sum of its pairs' results
//
// Each CTA receives an equal share of the sorted rows and keeps it in shared
// memory for the whole kernel ("stationary"). The result is computed in slices
// of kTileN columns. For each slice, a CTA streams the weights of its rows'
// experts through shared memory and stores its rows' results in one of kBuffers
// slice buffers in global memory. The buffers are small enough to stay in L2,
// which is why the result is computed slice by slice. When all CTAs have stored
// a slice, other warps of each CTA add up that slice for the CTA's tokens,
// while the next slice is multiplied.
//
// Warp roles: the first warpgroups contain the producer warp, which fills the
// ring of weight stages, three warps that synchronize with other CTAs, and the
// warps that combine. The other warpgroups are the consumers, which multiply. A
// consumer warpgroup computes 64 columns of a slice for every kRowParts-th row
// tile.
//
// Two counters per slice buffer synchronize the CTAs: the number of CTAs that
// have stored a slice there, and the number of CTAs that have combined it. A
// slice is stored only after all CTAs have combined the previous slice in that
// buffer. No thread waits for work on a later slice, so resident CTAs cannot
// deadlock.
//
// Warps that multiply or combine wait only for mbarriers in shared memory. One
// warp signals to other CTAs that this CTA has stored a slice. A second warp
// waits until all CTAs have stored it. A third warp does both for combined
// slices. This hides the latency of the counters in global memory
// (moe/matmul/slices/exchange.cuh).
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/pdl.cuh"
#include "moe/core/ptx.cuh"
#include "moe/core/ptx_async.cuh"
#include "moe/core/rank.cuh"
#include "moe/core/types.cuh"
#include "moe/matmul/epilogue/store_swapped.cuh"
#include "moe/matmul/feed/scales.cuh"
#include "moe/matmul/feed/scales_slice.cuh"
#include "moe/matmul/feed/weight_loader.cuh"
#include "moe/matmul/loop/mainloop.cuh"
#include "moe/matmul/roles/ring.cuh"
#include "moe/matmul/slices/exchange.cuh"
#include "moe/matmul/slices/layout.cuh"
#include "moe/matmul/slices/rows.cuh"
#include "moe/matmul/slices/sums.cuh"

namespace moe {

namespace detail {

/// Issues the copies of this CTA's rows of lhs and of their scales to shared
/// memory. Called by all threads.
template <class Config>
__device__ __forceinline__ void
fetchRows(const StationaryExchange<Config> &cta) {
  using Input = typename Config::Input;
  using S = Stationary<Config>;
  const typename Config::Args &args = cta.args;
  constexpr int kChunks = S::kTiles * S::Layout::kChunks;
  constexpr int kRowChunks = Config::kK / kPerVector<Input>;
  int count = cta.segments();
  if (count == 0)
    return;
  Segment at = cta.segment(0), last = cta.segment(count - 1);
  int rows = last.place + (last.rows + 7) / 8 * 8, index = 0;
#pragma unroll 1
  for (int i = int(threadIdx.x); i < rows * kChunks; i += Config::kThreads) {
    int row = i / kChunks, chunk = i % kChunks;
    while (row >= at.place + (at.rows + 7) / 8 * 8)
      at = cta.segment(++index);
    bool valid = row - at.place < at.rows && chunk < kRowChunks;
    unsigned source =
        unsigned(at.firstRow + row - at.place) * kRowChunks + chunk;
    int step = chunk / S::Layout::kChunks;
    ptx::copy16<true>(cta.shared + S::kLhs +
                          unsigned(step * S::kRows * S::kRowBytes) +
                          S::Layout::offset(row, chunk % S::Layout::kChunks),
                      args.lhs, valid ? source : 0, valid);
  }
  if constexpr (S::kStagesScales) {
    at = cta.segment(index = 0);
#pragma unroll 1
    for (int i = int(threadIdx.x); i < rows * S::kGroups;
         i += Config::kThreads) {
      int row = i / S::kGroups, group = i % S::kGroups;
      while (row >= at.place + (at.rows + 7) / 8 * 8)
        at = cta.segment(++index);
      bool valid = row - at.place < at.rows;
      long long source = at.firstRow + row - at.place;
      ptx::copySmall<true, 4>(
          cta.shared + S::kScales + unsigned(group * S::kRows + row) * 4,
          args.lhs_scale + (valid ? source * S::kGroups + group : 0), valid);
    }
  }
}

template <class Config> struct StationaryCta : StationaryExchange<Config> {
  using Exchange = StationaryExchange<Config>;
  using Schedule = typename Config::Schedule;
  using Input = typename Config::Input;
  using S = Stationary<Config>;
  using Index = RingIndex<Schedule::kStages>;
  using Exchange::args, Exchange::shared, Exchange::ring, Exchange::local,
      Exchange::segment, Exchange::segments, Exchange::kStored, Exchange::kFree;

  /// Returns the list index of the CTA's `index`-th segment. Adjacent CTAs
  /// traverse their segments in opposite directions, so that two CTAs that
  /// share an expert read its weights at the same time.
  __device__ __forceinline__ int inOrder(int index, int count) const {
    return blockIdx.x % 2 ? count - 1 - index : index;
  }

  /// Position of the next weight copy: slice, segment and step of k.
  struct Walk {
    int slice = 0, index = 0, k = 0;
  };

  __device__ __forceinline__ void copyStep(Walk &walk, int count,
                                           int stage) const {
    Segment at = segment(inOrder(walk.index, count));
    // Only the first and the last expert may have rows in an adjacent CTA too.
    // Their weights should stay in L2; all others are read once.
    bool once = walk.index > 0 && walk.index < count - 1;
    int firstN = walk.slice * S::kSlice;
    unsigned full = ring().full(stage);
    WeightLoader<Config>{args}.copy(shared + unsigned(stage * S::kStageBytes),
                                    firstN, walk.k, at.expert, full, once);
    if constexpr (S::kStagesScales) {
      using Scales = ScaleLayout<Config>;
      ptx::copySmall<true, 4>(shared + S::kStageScales + unsigned(stage) * 4,
                              args.rhs_scale +
                                  (long long)at.expert * Scales::kPerExpert +
                                  Scales::rhsIndex(firstN) + walk.k,
                              true);
      ptx::arriveAfterCopies(full);
    }
    if (++walk.k == S::kTiles) {
      walk.k = 0;
      if (++walk.index == count) {
        walk.index = 0;
        ++walk.slice;
      }
    }
  }

  /// The operands of a consumer warpgroup, as moe/matmul/loop/mainloop.cuh
  /// reads them: weights from the ring, and tokens that stay in shared memory.
  struct Operands {
    static constexpr bool kTakesTurns = false;
    RingBarriers<Schedule::kStages> barriers;
    unsigned weights, tokens, tokenScales, stageScales;
    bool releases; ///< true if this thread releases pipeline stages

    __device__ __forceinline__ void await(const Index &ring) const {
      ptx::waitForBarrier(barriers.full(ring.stage), ring.phase());
    }
    __device__ __forceinline__ unsigned rows(int, int stage) const {
      return weights + unsigned(stage * S::kStageBytes);
    }
    __device__ __forceinline__ unsigned columns(int k, int) const {
      return tokens + unsigned(k * S::kRows * S::kRowBytes);
    }
    __device__ __forceinline__ unsigned scales(int k, int) const {
      return tokenScales + unsigned(k * S::kRows) * 4;
    }
    __device__ __forceinline__ unsigned weightScales(int stage) const {
      return stageScales + unsigned(stage) * 4;
    }
    __device__ __forceinline__ void giveBack(int stage) const {
      if (releases)
        ptx::arrive(barriers.empty(stage));
    }
  };

  struct Consumer {
    const StationaryCta &cta;
    const Segment &at; ///< the rows of this row tile
    Index ring;        ///< pipeline stage of the expert's first weights
    bool last; ///< true for the warpgroup's last row tile with these weights
    int slice, thread, warpgroup;

    __device__ __forceinline__ int columns() const {
      return warpgroup % S::kColumnGroups;
    }

    template <int kTokens> __device__ __forceinline__ void run() {
      typename Config::Mma::template Worker<kTokens> worker(thread, columns());
      int firstN = slice * S::kSlice;
      auto scales = [&] {
        if constexpr (ScaleLayout<Config>::kScaled)
          return SliceScales<Config, decltype(worker)>(WeightScales<Config>(
              cta.args, at.expert, firstN + worker.firstRow));
        else
          return NoScales();
      }();
      // Issues the loads of per-row scales, which overlap with the mainloop.
      scales.fetchOwn(cta.args, thread, at.rows,
                      [&](int r) { return at.firstRow + r; });
      Operands operands{
          cta.ring(),
          cta.shared + unsigned(columns() * Config::Mma::kRows * S::kRowBytes),
          cta.shared + S::kLhs + unsigned(at.place * S::kRowBytes),
          cta.shared + S::kScales + unsigned(at.place) * 4,
          cta.shared + S::kStageScales,
          last && thread % 32 == 0};
      mainloopOf<Config>().run(worker, scales, operands, ring, {0, S::kTiles});
      scales.finish(worker, staging(), 1 + warpgroup, thread);
      if constexpr (Config::kBias)
        store(worker,
              biasOf(cta.args, (long long)at.expert * Config::kN + firstN));
      else
        store(worker, static_cast<const Input *>(nullptr));
    }

    __device__ __forceinline__ unsigned staging() const {
      return cta.shared + S::kStaging +
             unsigned(warpgroup * S::Staging::kBytes);
    }

    template <class Worker, class Bias>
    __device__ __forceinline__ void store(const Worker &worker,
                                          const Bias *bias) {
      int buffer = slice % Schedule::kBuffers,
          uses = slice / Schedule::kBuffers;
      ptx::waitForBarrier(cta.local(kFree, buffer), unsigned(uses & 1) ^ 1);
      long long row =
          (long long)buffer * cta.args.tokens * Config::kPairs + at.firstRow;
      storeSwapped<SliceOf<Config>>(worker, staging(), 1 + warpgroup, thread,
                                    columns(), at.rows, 0, bias,
                                    cta.args.partials + row * S::kSlice, 1.0f);
    }
  };

  __device__ __forceinline__ void consume() const {
    int thread = int(threadIdx.x) % 128;
    int warpgroup = (int(threadIdx.x) - S::kOthers) / 128;
    int count = segments();
    auto barriers = Exchange::ring();
    Index ring;
    // Row tiles are assigned to warpgroups in round-robin order. The order
    // continues from one expert and slice to the next.
    int turn = warpgroup / S::kColumnGroups;
#pragma unroll 1
    for (int slice = 0; slice < S::kSlices; ++slice) {
#pragma unroll 1
      for (int index = 0; index < count; ++index) {
        Segment at = segment(inOrder(index, count));
        int tiles = (at.rows + Schedule::kTileM - 1) / Schedule::kTileM;
        int rows = ((at.rows + 7) / 8 + tiles - 1) / tiles * 8;
        tiles = (at.rows + rows - 1) / rows;
        bool any = turn < tiles;
#pragma unroll 1
        for (; turn < tiles; turn += S::kRowParts) {
          int from = turn * rows;
          Segment own{at.expert, at.firstRow + from, min(rows, at.rows - from),
                      at.place + from};
          Consumer consumer{
              *this, own,    ring,     turn + S::kRowParts >= tiles,
              slice, thread, warpgroup};
          withTokens<Schedule::kTileM, 32>(own.rows, consumer);
        }
        turn -= tiles;
#pragma unroll 1
        for (int k = 0; k < S::kTiles; ++k) {
          if (!any) {
            ptx::waitForBarrier(barriers.full(ring.stage), ring.phase());
            if (thread % 32 == 0)
              ptx::arrive(barriers.empty(ring.stage));
          }
          ring.advance();
        }
      }
      // Every warp waits here, even without a row tile. Otherwise it could
      // arrive twice in one phase.
      int buffer = slice % Schedule::kBuffers,
          uses = slice / Schedule::kBuffers;
      ptx::waitForBarrier(local(kFree, buffer), unsigned(uses & 1) ^ 1);
      __syncwarp();
      if (thread % 32 == 0)
        ptx::arrive(local(kStored, buffer));
    }
  }
};

} // namespace detail

/// Runs the kernel.
template <class Config>
__device__ __forceinline__ void stationary(const typename Config::Args &args,
                                           unsigned shared) {
  using S = Stationary<Config>;
  using Schedule = typename Config::Schedule;
  detail::StationaryCta<Config> cta{{args, shared}};
  if constexpr (!Config::kTilesEarly)
    awaitPredecessor<Config>();
  if (threadIdx.x == 0) {
    WeightLoader<Config>{args}.prefetch();
    cta.initialize();
  } else if (threadIdx.x / 32 == 1) {
    detail::findRows<Config>(args, shared);
  }
  __syncthreads();
  int count = cta.segments();
  // `early`: number of pipeline stages whose weight copies are issued before
  // the wait for the predecessor launch.
  typename detail::StationaryCta<Config>::Walk walk;
  int early = 0;
  if (threadIdx.x == 0 && count > 0)
#pragma unroll 1
    for (; early < Schedule::kStages && walk.slice < S::kSlices; ++early)
      cta.copyStep(walk, count, early);
  if constexpr (Config::kTilesEarly)
    awaitPredecessor<Config>();
  if (count < 0) {
    detail::refuse<Config>(args);
    return;
  }
  detail::fetchRows(cta);
  ptx::commitCopies();
  ptx::waitForCopies<0>();
  ptx::fenceShared();
  __syncthreads();
  if (threadIdx.x < S::kOthers) {
    ptx::giveRegisters<Schedule::kProducerRegisters>();
    if (threadIdx.x >= 32 * S::kSumWarp) {
      detail::sumSlices(cta);
    } else if (threadIdx.x == 32) {
      cta.tellStored();
    } else if (threadIdx.x == 64) {
      cta.awaitStored();
    } else if (threadIdx.x == 96) {
      cta.exchangeSummed();
    } else if (threadIdx.x == 0 && count > 0) {
      RingIndex<Schedule::kStages> ring;
      if (early == Schedule::kStages)
        ring.state = 1;
      else
        ring.stage = early;
#pragma unroll 1
      while (walk.slice < S::kSlices) {
        ptx::waitForBarrier(cta.ring().empty(ring.stage), ring.phase() ^ 1);
        cta.copyStep(walk, count, ring.stage);
        ring.advance();
      }
    }
  } else {
    ptx::takeRegisters<Schedule::kConsumerRegisters>();
    cta.consume();
  }
}

} // namespace moe
