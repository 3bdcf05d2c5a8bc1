//===- stationary.cuh - token rows stay, weights stream ---------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The second matmul of many tokens and its combine in one launch. All CTAs are
// resident together and share the sorted rows evenly: each keeps its rows of
// lhs in shared memory for good. The result is made in slices of kTileN
// columns: for each, a CTA streams the slice's weights of the experts that its
// rows belong to past its rows, and leaves partial sums in one of kBuffers
// buffers of a slice, small enough to stay in the second-level cache. When all
// CTAs are done with a slice, other warps sum it for the tokens of their CTA,
// while the next slice is multiplied.
//
// Warpgroups: the first ones hold the warp that fills the ring of weight
// stages, three that talk to other CTAs, and those that sum; the others
// multiply, each 64 of the slice's columns for every so many tiles of rows.
//
// Two counters for each buffer keep the CTAs together: CTAs that have stored a
// slice there, and CTAs that have summed it. A slice is stored where the sums
// of the one before it in that buffer are done. Nobody waits for what a later
// slice does, so resident CTAs always come to an end. Who multiplies or sums
// waits for barriers in shared memory alone: one warp tells others that this
// CTA has stored a slice, one waits until all have, and one does both for sums.
// So the time that a word takes to memory and back delays nobody.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/pdl.cuh"
#include "moe/core/ptx.cuh"
#include "moe/core/ptx_async.cuh"
#include "moe/core/ptx_grid.cuh"
#include "moe/core/types.cuh"
#include "moe/epilogue/store_swapped.cuh"
#include "moe/epilogue/weighted_sum.cuh"
#include "moe/quant/scales_swapped.cuh"
#include "moe/skeleton/stationary_layout.cuh"
#include "moe/skeleton/stationary_rows.cuh"
#include "moe/skeleton/warp_specialized.cuh"

namespace moe {

namespace detail {

template <class Config> struct StationaryCta {
  using Args = typename Config::Args;
  using Schedule = typename Config::Schedule;
  using Input = typename Config::Input;
  using Result = typename Config::Result;
  using Output = typename Config::Output;
  using S = Stationary<Config>;
  using Index = RingIndex<Schedule::kStages>;

  const Args &args;
  unsigned shared;

  __device__ __forceinline__ unsigned full(int stage) const {
    return shared + S::kBarriers + unsigned(stage) * 8;
  }
  __device__ __forceinline__ unsigned empty(int stage) const {
    return full(stage) + Schedule::kStages * 8;
  }
  /// In this CTA: a slice is stored, is stored by all, is summed; and its
  /// buffer is summed by all.
  __device__ __forceinline__ unsigned local(int what, int buffer) const {
    return full(2 * Schedule::kStages + what * Schedule::kBuffers + buffer);
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
  /// Neighbours walk in opposite directions, so that both come to an expert
  /// that they share at the same time.
  __device__ __forceinline__ int inOrder(int index, int count) const {
    return blockIdx.x % 2 ? count - 1 - index : index;
  }

  /// All threads bring this CTA's rows of lhs and their scales.
  __device__ __forceinline__ void fetchRows() const {
    constexpr int kChunks = S::kTiles * S::Layout::kChunks;
    constexpr int kRowChunks = Config::kK / kPerVector<Input>;
    int count = segments();
    if (count == 0)
      return;
    Segment at = segment(0), last = segment(count - 1);
    int rows = last.place + (last.rows + 7) / 8 * 8, index = 0;
#pragma unroll 1
    for (int i = int(threadIdx.x); i < rows * kChunks; i += Config::kThreads) {
      int row = i / kChunks, chunk = i % kChunks;
      while (row >= at.place + (at.rows + 7) / 8 * 8)
        at = segment(++index);
      bool valid = row - at.place < at.rows && chunk < kRowChunks;
      unsigned source =
          unsigned(at.firstRow + row - at.place) * kRowChunks + chunk;
      int step = chunk / S::Layout::kChunks;
      ptx::copy16<true>(shared + S::kLhs +
                            unsigned(step * S::kRows * S::kRowBytes) +
                            S::Layout::offset(row, chunk % S::Layout::kChunks),
                        args.lhs, valid ? source : 0, valid);
    }
    if constexpr (S::kStagesScales) {
      at = segment(index = 0);
#pragma unroll 1
      for (int i = int(threadIdx.x); i < rows * S::kGroups;
           i += Config::kThreads) {
        int row = i / S::kGroups, group = i % S::kGroups;
        while (row >= at.place + (at.rows + 7) / 8 * 8)
          at = segment(++index);
        bool valid = row - at.place < at.rows;
        long long source = at.firstRow + row - at.place;
        ptx::copy4(shared + S::kScales + unsigned(group * S::kRows + row) * 4,
                   args.lhs_scale + (valid ? source * S::kGroups + group : 0),
                   valid);
      }
    }
  }

  //===--- weights --------------------------------------------------------===//

  /// The place in the walk over slices, experts and k.
  struct Walk {
    int slice = 0, index = 0, k = 0;
  };

  __device__ __forceinline__ void copyStep(Walk &walk, int count,
                                           int stage) const {
    Segment at = segment(inOrder(walk.index, count));
    // The first and the last expert may be a neighbour's too.
    bool once = walk.index > 0 && walk.index < count - 1;
    ptx::arriveExpecting(full(stage), S::kStageBytes);
    unsigned to = shared + unsigned(stage * S::kStageBytes);
    int x = walk.k * Schedule::kTileK, y = walk.slice * S::kSlice;
    if (once)
      ptx::copyTileOnce(to, &args.rhs, x, y, at.expert, full(stage));
    else
      ptx::copyTile(to, &args.rhs, x, y, at.expert, full(stage));
    if constexpr (S::kStagesScales) {
      using Scales = ScaleLayout<Config>;
      ptx::copy4(shared + S::kStageScales + unsigned(stage) * 4,
                 args.rhs_scale + (long long)at.expert * Scales::kPerExpert +
                     Scales::rhsIndex(y) + walk.k,
                 true);
      ptx::arriveAfterCopies(full(stage));
    }
    if (++walk.k == S::kTiles) {
      walk.k = 0;
      if (++walk.index == count) {
        walk.index = 0;
        ++walk.slice;
      }
    }
  }

  //===--- the matmul -----------------------------------------------------===//

  struct Consumer {
    const StationaryCta &cta;
    const Segment &at; ///< of the rows of this tile alone
    Index ring;        ///< where the expert's weights begin
    bool last;         ///< this warpgroup does not read the weights again
    int slice, thread, warpgroup;

    __device__ __forceinline__ int columns() const {
      return warpgroup % S::kColumnGroups;
    }

    /// One step of k, whose sums are added to the totals.
    template <class Worker>
    __device__ __forceinline__ void promote(Worker &worker, unsigned weights,
                                            unsigned rows, int k, int stage,
                                            bool releases) const {
      float ofWeights = 1.0f;
      if constexpr (S::kStagesScales)
        ofWeights = __uint_as_float(ptx::loadShared(
            cta.shared + S::kStageScales + unsigned(stage) * 4));
      unsigned scales = cta.shared + S::kScales +
                        unsigned(k * S::kRows + at.place + worker.firstCol) * 4;
#pragma unroll
      for (int piece = 0; piece < Worker::kPieces; ++piece) {
        worker.multiplyPiece(piece, weights, rows);
        ptx::waitForMultiplies<0>();
        worker.finish();
        if (piece == Worker::kPieces - 1 && releases)
          ptx::arrive(cta.empty(stage));
#pragma unroll
        for (int first = 0; first < Worker::kPieceSize; first += 4) {
          float2 pair = {1.0f, 1.0f};
          if constexpr (S::kStagesScales)
            pair = ptx::loadSharedPair(
                scales +
                unsigned(piece % Worker::kPiecesOfAtom * Worker::kPieceColumns +
                         first * 2) *
                    4);
          float both[2] = {pair.x * ofWeights, pair.y * ofWeights};
          worker.template add<4>(piece, first,
                                 [&](int i) { return both[i % 2]; });
        }
      }
    }

    /// All steps of k.
    template <class Worker>
    __device__ __forceinline__ void multiply(Worker &worker) {
      unsigned weights =
          cta.shared + unsigned(columns() * Config::Mma::kRows * S::kRowBytes);
      unsigned rows = cta.shared + S::kLhs + unsigned(at.place * S::kRowBytes);
      bool releases = last && thread % 32 == 0;
      int before = 0;
#pragma unroll 1
      for (int k = 0; k < S::kTiles; ++k) {
        ptx::waitForBarrier(cta.full(ring.stage), ring.phase());
        unsigned ofWeights = weights + unsigned(ring.stage * S::kStageBytes);
        unsigned ofRows = rows + unsigned(k * S::kRows * S::kRowBytes);
        if constexpr (Config::Mma::kPromoted) {
          promote(worker, ofWeights, ofRows, k, ring.stage, releases);
        } else {
          worker.multiplyAll(ofWeights, ofRows);
          ptx::waitForMultiplies<1>();
          if (k > 0 && releases)
            ptx::arrive(cta.empty(before));
          before = ring.stage;
        }
        ring.advance();
      }
      if constexpr (!Config::Mma::kPromoted) {
        ptx::waitForMultiplies<0>();
        worker.finish();
        if (releases)
          ptx::arrive(cta.empty(before));
      }
    }

    template <int kTokens> __device__ __forceinline__ void run() {
      typename Config::Mma::template Worker<kTokens> worker(thread, columns());
      int firstN = slice * S::kSlice;
      // Scales of whole rows are on their way meanwhile.
      if constexpr (ScaleLayout<Config>::kScaled && !S::kStagesScales) {
        SwappedScales<Config, decltype(worker)> scales(
            cta.args, at.expert, firstN, worker, {cta.args, 0, 0});
        scales.fetchOwn(cta.args, thread, at.rows,
                        [&](int r) { return at.firstRow + r; });
        multiply(worker);
        scales.finish(worker, staging(), 1 + warpgroup, thread);
      } else {
        multiply(worker);
      }
      if constexpr (Config::kBias)
        store(worker,
              cta.args.bias + (long long)at.expert * Config::kN + firstN);
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
    Index ring;
    // Tiles go round the warpgroups, over all slices.
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
          withTokens<Schedule::kTileM>(own.rows, consumer);
        }
        turn -= tiles;
#pragma unroll 1
        for (int k = 0; k < S::kTiles; ++k) {
          if (!any) {
            ptx::waitForBarrier(full(ring.stage), ring.phase());
            if (thread % 32 == 0)
              ptx::arrive(empty(ring.stage));
          }
          ring.advance();
        }
      }
      // Also without a tile: nobody arrives twice in a phase.
      int buffer = slice % Schedule::kBuffers,
          uses = slice / Schedule::kBuffers;
      ptx::waitForBarrier(local(kFree, buffer), unsigned(uses & 1) ^ 1);
      __syncwarp();
      if (thread % 32 == 0)
        ptx::arrive(local(kStored, buffer));
    }
  }

  //===--- what CTAs tell each other --------------------------------------===//

  /// One thread: this CTA has stored a slice.
  __device__ __forceinline__ void tellStored() const {
#pragma unroll 1
    for (int slice = 0; slice < S::kSlices; ++slice) {
      int buffer = slice % Schedule::kBuffers,
          uses = slice / Schedule::kBuffers;
      ptx::waitForBarrier(local(kStored, buffer), unsigned(uses & 1));
      ptx::signal(tilesDone(buffer));
    }
  }
  /// One thread: all have stored it.
  __device__ __forceinline__ void awaitStored() const {
#pragma unroll 1
    for (int slice = 0; slice < S::kSlices; ++slice) {
      int buffer = slice % Schedule::kBuffers,
          uses = slice / Schedule::kBuffers;
      ptx::awaitSignals(tilesDone(buffer), (uses + 1) * int(gridDim.x));
      ptx::arrive(local(kReady, buffer));
    }
  }
  /// One thread: this CTA has summed a slice, and all have.
  __device__ __forceinline__ void exchangeSummed() const {
#pragma unroll 1
    for (int slice = 0; slice + Schedule::kBuffers < S::kSlices; ++slice) {
      int buffer = slice % Schedule::kBuffers,
          uses = slice / Schedule::kBuffers;
      ptx::waitForBarrier(local(kSummed, buffer), unsigned(uses & 1));
      ptx::signal(sumsDone(buffer));
      ptx::awaitSignals(sumsDone(buffer), (uses + 1) * int(gridDim.x));
      ptx::arrive(local(kFree, buffer));
    }
  }

  /// The output of a launch that cannot make it: no number, so that nobody
  /// takes it for one. A trap would end the whole context.
  __device__ __forceinline__ void refuse() const {
    constexpr int kVectors = Config::kN / kPerVector<Output>;
    float none[kPerVector<Output>];
#pragma unroll
    for (float &value : none)
      value = __uint_as_float(0x7fffffffu);
    const Vector16 words = pack<Output>(none);
#pragma unroll 1
    for (int token = int(blockIdx.x); token < args.tokens;
         token += int(gridDim.x))
#pragma unroll 1
      for (int i = int(threadIdx.x); i < kVectors; i += Config::kThreads)
        reinterpret_cast<Vector16 *>(
            args.out)[(long long)token * kVectors + i] = words;
  }

  //===--- the sums -------------------------------------------------------===//

  __device__ __forceinline__ void sum() const {
    constexpr int kPairs = Config::kPairs;
    constexpr int kWidth = maximum(kPerVector<Result>, kPerVector<Output>);
    constexpr int kPartialVectors = kWidth / kPerVector<Result>;
    constexpr int kOutputVectors = kWidth / kPerVector<Output>;
    constexpr int kChunks = S::kSlice / kWidth;
    constexpr int kBatch = minimum(kPairs, 8);
    int thread = int(threadIdx.x) - 32 * S::kSumWarp;
    int share = (args.tokens + int(gridDim.x) - 1) / int(gridDim.x);
    int first = int(blockIdx.x) * share;
    int count = max(0, min(share, args.tokens - first));
    unsigned pairs = shared + S::kPairList;
#pragma unroll 1
    for (int i = thread; i < count * kPairs; i += S::kSumThreads) {
      long long pair = (long long)first * kPairs + i;
      ptx::storeShared(pairs + unsigned(i) * 8, unsigned(args.positions[pair]));
      ptx::storeShared(pairs + unsigned(i) * 8 + 4,
                       __float_as_uint(args.topk_weights[pair]));
    }
    ptx::synchronize(15, S::kSumThreads);
#pragma unroll 1
    for (int slice = 0; slice < S::kSlices; ++slice) {
      int buffer = slice % Schedule::kBuffers,
          uses = slice / Schedule::kBuffers;
      ptx::waitForBarrier(local(kReady, buffer), unsigned(uses & 1));
      const Result *partials =
          args.partials + (long long)buffer * args.tokens * kPairs * S::kSlice;
#pragma unroll 1
      for (int i = thread; i < count * kChunks; i += S::kSumThreads) {
        int token = i / kChunks, column = i % kChunks * kWidth;
        unsigned own = pairs + unsigned(token * kPairs) * 8;
        float sums[kWidth] = {};
#pragma unroll 1
        for (int begin = 0; begin < kPairs; begin += kBatch) {
          Vector16 vectors[kBatch][kPartialVectors];
          unsigned have = 0;
#pragma unroll
          for (int k = 0; k < kBatch; ++k) {
            bool exists = kPairs % kBatch == 0 || begin + k < kPairs;
            int row = exists
                          ? int(ptx::loadShared(own + unsigned(begin + k) * 8))
                          : -1;
            have |= unsigned(row >= 0) << k;
            const Result *source =
                partials + unsigned(row) * unsigned(S::kSlice) + column;
#pragma unroll
            for (int v = 0; v < kPartialVectors; ++v) {
              vectors[k][v] = Vector16{};
              if (row < 0)
                continue;
              uint4 words =
                  ptx::loadSecondLevelOnce(source + v * kPerVector<Result>);
              vectors[k][v] = {{words.x, words.y, words.z, words.w}};
            }
          }
#pragma unroll
          for (int k = 0; k < kBatch; ++k) {
            if (!(have >> k & 1))
              continue;
            float scale = __uint_as_float(
                ptx::loadShared(own + unsigned(begin + k) * 8 + 4));
            addWeighted<Result>(sums, vectors[k], scale, [](int, float *) {});
          }
        }
        Output *out = args.out + (long long)(first + token) * Config::kN +
                      slice * S::kSlice + column;
#pragma unroll
        for (int v = 0; v < kOutputVectors; ++v) {
          Vector16 words = pack<Output>(sums + v * kPerVector<Output>);
          ptx::storeStreaming(out + v * kPerVector<Output>,
                              make_uint4(words.words[0], words.words[1],
                                         words.words[2], words.words[3]));
        }
      }
      __syncwarp();
      if (thread % 32 == 0)
        ptx::arrive(local(kSummed, buffer));
    }
  }
};

} // namespace detail

/// The whole kernel.
template <class Config>
__device__ __forceinline__ void stationary(const typename Config::Args &args,
                                           unsigned shared) {
  using S = Stationary<Config>;
  using Schedule = typename Config::Schedule;
  detail::StationaryCta<Config> cta{args, shared};
  if constexpr (!Config::kTilesEarly)
    awaitPredecessor<Config>();
  if (threadIdx.x == 0) {
    ptx::prefetchMap(&args.rhs);
#pragma unroll 1
    for (int stage = 0; stage < Schedule::kStages; ++stage) {
      ptx::initializeBarrier(cta.full(stage), S::kStagesScales ? 2 : 1);
      ptx::initializeBarrier(cta.empty(stage), S::kConsumers / 32);
    }
#pragma unroll 1
    for (int buffer = 0; buffer < Schedule::kBuffers; ++buffer) {
      using Cta = detail::StationaryCta<Config>;
      ptx::initializeBarrier(cta.local(Cta::kStored, buffer),
                             S::kConsumers / 32);
      ptx::initializeBarrier(cta.local(Cta::kReady, buffer), 1);
      ptx::initializeBarrier(cta.local(Cta::kSummed, buffer),
                             S::kSumThreads / 32);
      ptx::initializeBarrier(cta.local(Cta::kFree, buffer), 1);
    }
    ptx::publishBarriers();
  } else if (threadIdx.x / 32 == 1) {
    detail::findRows<Config>(args, shared);
  }
  __syncthreads();
  int count = cta.segments();
  // Stages whose weights are on their way while the predecessor still runs.
  typename detail::StationaryCta<Config>::Walk walk;
  int early = 0;
  if (threadIdx.x == 0 && count > 0)
#pragma unroll 1
    for (; early < Schedule::kStages && walk.slice < S::kSlices; ++early)
      cta.copyStep(walk, count, early);
  if constexpr (Config::kTilesEarly)
    awaitPredecessor<Config>();
  if (count < 0) {
    cta.refuse();
    return;
  }
  cta.fetchRows();
  ptx::commitCopies();
  ptx::waitForCopies<0>();
  ptx::fenceShared();
  __syncthreads();
  if (threadIdx.x < S::kOthers) {
    ptx::giveRegisters<Schedule::kProducerRegisters>();
    if (threadIdx.x >= 32 * S::kSumWarp) {
      cta.sum();
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
        ptx::waitForBarrier(cta.empty(ring.stage), ring.phase() ^ 1);
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
