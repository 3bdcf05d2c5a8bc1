//===- warp_specialized.cuh - producers and consumers -----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A persistent CTA for an engine that multiplies out of shared memory. The
// warps of the first warpgroup fill a ring of stages: one thread has the copy
// engine bring the weights, all of them gather token rows with cp.async. Both
// arrive at the stage's barrier `full`. Each other warpgroup multiplies its
// weight rows by all tokens of the tile, or its tokens by all weight rows, one
// group of multiplies in flight, and gives a stage back (barrier `empty`) one
// step late; sums that are promoted wait for each stage, and those of weight
// rows take turns, or leave the tensor cores to the warpgroup of a second CTA.
// Producers run into the next tile while consumers store the last one. Where
// 128 columns of the result share a scale, a tile is all column tiles of such a
// group, one after the other (quantize_groups.cuh).
//
// Tiles are taken in turn: CTA i begins with tile i, and one producer thread
// takes each further one from a cursor in global memory and hands it to the
// CTA through two slots in shared memory. So long tiles delay nobody, and no
// result depends on who computed it. Where the predecessor did not write the
// tile list, the weights of the first tile are fetched while it still runs.
// Where tiles are few, clusters of two may share the k of each (split.cuh).
//
// Two matmuls in a row run beside each other: the first counts, in the last
// word of a row tile, the column tiles that it has stored (kCounts), and the
// second takes the place of its CTAs as they end and begins with row tiles of
// which all are (kAwaited). All CTAs of the first one run by then, so that
// nobody waits for ever. What the second one writes must not lie where the
// first one still reads.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/pdl.cuh"
#include "moe/core/ptx.cuh"
#include "moe/core/ptx_async.cuh"
#include "moe/core/tile_order.cuh"
#include "moe/core/types.cuh"
#include "moe/epilogue/quantize_groups.cuh"
#include "moe/epilogue/store_rows.cuh"
#include "moe/epilogue/store_swapped.cuh"
#include "moe/quant/scales_rows.cuh"
#include "moe/quant/scales_swapped.cuh"
#include "moe/skeleton/specialized.cuh"

namespace moe {

namespace detail {

template <class Config> struct WarpSpecialized {
  using Args = typename Config::Args;
  using Schedule = typename Config::Schedule;
  using Input = typename Config::Input;
  using S = Specialized<Config>;
  using Index = RingIndex<Schedule::kStages>;
  static constexpr bool kSwapped = Config::Mma::kSwapped;

  const Args &args;
  unsigned shared;
  Barriers<Config> barriers;

  /// Which row of lhs is row r of a tile.
  __device__ __forceinline__ int source(const SlotTile &tile, int r) const {
    if constexpr (Config::kGather)
      return args.rows[tile.firstRow + r] / Config::kPairs;
    else
      return tile.firstRow + r;
  }

  /// Reads the tile in a slot and gives the slot back. One lane of a warp does
  /// both, so that nobody reads what it gives back, and tells the others.
  __device__ __forceinline__ SlotTile take(unsigned count) const {
    int slot = int(count % 2);
    unsigned phase = count / 2 % 2;
    unsigned words[4] = {0, 0, 0, 0};
    int index = S::kGroups == 1 ? ptx::threadIndex() : int(threadIdx.x);
    if (index % 32 == 0) {
      ptx::waitForBarrier(barriers.slotFull(slot), phase);
      ptx::loadShared(shared + S::kSlots + unsigned(slot) * 16, words);
      ptx::arrive(barriers.slotEmpty(slot));
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
      words[i] = __shfl_sync(0xffffffffu, words[i], 0);
    return SlotTile::of<S::kBeside, (S::kSplit > 1)>(words);
  }

  /// Puts the tile of this index, if there is one, into the slot of the CTA's
  /// tile `count`.
  __device__ __forceinline__ void publish(int index, int rowTiles,
                                          unsigned count) const {
    // Else the optimizer computes all of this before the loop over k, and keeps
    // it in registers.
    asm volatile("" : "+r"(index), "+r"(count));
    int slot = int(count % 2);
    unsigned phase = count / 2 % 2;
    if constexpr (!S::kBeside)
      rowTiles = ptx::loadFresh(args.tile_count);
    unsigned words[4] = {0, 0, 0, 0};
    bool isSplit =
        splitsTiles<Config>(rowTiles * S::kColumnTiles, ptx::gridSize());
    if (isSplit)
      index /= S::kSplit;
    if (index < rowTiles * S::kColumnTiles) {
      TileIndex at =
          tileOf<Schedule::kGroupM, S::kColumnTiles>(index, rowTiles);
      int4 tile = S::kBeside ? ptx::loadCounted(args.tiles + at.m)
                             : ptx::loadFresh(args.tiles + at.m);
      bool isThere = Config::kAwaited > 0 && tile.w >= Config::kAwaited;
      if (isThere)
        ptx::fenceAfterCount();
      SlotTile::put<S::kBeside>(words, tile, at.m, at.n * S::kTakenN, isThere,
                                isSplit);
    }
    ptx::waitForBarrier(barriers.slotEmpty(slot), phase ^ 1);
    ptx::storeShared(shared + S::kSlots + unsigned(slot) * 16, words);
    ptx::arrive(barriers.slotFull(slot));
  }

  /// Returns when the predecessor has written the rows of a tile.
  __device__ __forceinline__ void awaitRows(const SlotTile &tile) const {
    if (Config::kAwaited == 0 || tile.isThere)
      return;
    if (threadIdx.x % 32 == 0)
      ptx::waitForCount(&args.tiles[tile.index].w, Config::kAwaited);
    __syncwarp();
  }

  /// Has the copy engine bring the weights of step k of a tile, of its rows
  /// from firstN on.
  __device__ __forceinline__ void copyWeights(const SlotTile &tile, int firstN,
                                              int k, int stage) const {
    unsigned full = barriers.full(stage);
    ptx::arriveExpecting(full, S::kWeightBytes);
    ptx::copyTile(shared + unsigned(stage * S::kStageBytes), &args.rhs,
                  k * Schedule::kTileK, firstN, tile.expert, full);
  }

  /// The first warpgroup.
  __device__ __forceinline__ void produce() const {
    // Scheduling and the copy engine are for two warps, so that the latency of
    // the one does not delay the other.
    bool schedules = threadIdx.x == S::kProducers - 32;
    bool copiesWeights = threadIdx.x == 0;
    int row = int(threadIdx.x) / S::Layout::kChunks;
    int chunk = int(threadIdx.x) % S::Layout::kChunks;
    unsigned destination =
        shared + S::kWeightBytes + S::Layout::offset(row, chunk);
    // The places of a thread's rows stay in its registers. If registers are
    // few, a lane keeps the place of one row, and hands it over each time.
    constexpr bool kOwnRows = Schedule::kProducerRegisters >= 48;
    constexpr int kHeld = kOwnRows ? S::kPasses : ceilDiv(S::kPasses, 8);
    constexpr int kBatch = kOwnRows ? S::kPasses : minimum(S::kPasses, 2);
    int lane = int(threadIdx.x) % 32;
    int heldRow = kOwnRows ? row
                           : lane / 4 * S::kRowsPerPass +
                                 int(threadIdx.x) / 32 * 4 + lane % 4;
    constexpr int kHeldStep = kOwnRows ? S::kRowsPerPass : 8 * S::kRowsPerPass;

    Index ring;
    if constexpr (!Config::kTilesEarly)
      awaitPredecessor<Config>();
    int rowTiles = 0;
    if (schedules) {
      if constexpr (S::kBeside)
        rowTiles = ptx::loadFresh(args.tile_count);
      publish(int(blockIdx.x), rowTiles, 0);
    }
    SlotTile tile = take(0);
    // Steps of the first tile whose weights are on their way.
    int early = 0;
    if constexpr (Config::kTilesEarly) {
      if (tile.rows > 0) {
        SplitSteps steps = splitSteps<S::kSplit, S::kTiles>(tile.isSplit);
        early = minimum(Schedule::kStages, steps.end - steps.first);
        if (copiesWeights)
#pragma unroll 1
          for (int k = 0; k < early; ++k)
            copyWeights(tile, tile.firstN, steps.first + k, k);
      }
      if constexpr (Config::kAwaited == 0)
        awaitPredecessor<Config>();
    }
#pragma unroll 1
    while (tile.rows > 0) {
      ring.countTile();
      awaitRows(tile);
      // Else it is a register's, all the time.
      long long rowStride = args.lhs_row_stride;
      asm volatile("" : "+l"(rowStride));
      unsigned rowChunks = unsigned(rowStride / kPerVector<Input>);
      unsigned held[kHeld];
#pragma unroll
      for (int j = 0; j < kHeld; ++j) {
        int r = heldRow + j * kHeldStep;
        held[j] = unsigned(source(tile, r < tile.rows ? r : 0)) * rowChunks +
                  (kOwnRows ? unsigned(chunk) : 0);
      }
      // Thread r copies the scales of row r, and of r + 128.
      unsigned scaleRow[S::kScaleRows];
      if constexpr (S::kStagesScales)
#pragma unroll
        for (int j = 0; j < S::kScaleRows; ++j) {
          int token = int(threadIdx.x) + j * S::kProducers;
          scaleRow[j] = unsigned(source(tile, token < tile.rows ? token : 0)) *
                        unsigned(ScaleLayout<Config>::kGroups);
        }
      int passes = 0;
      Counter counter{passes};
      withTokens<Schedule::kTileM>(tile.rows, counter);
      SplitSteps steps = splitSteps<S::kSplit, S::kTiles>(tile.isSplit);
      int next = 0;
      if (schedules)
        next =
            ptx::gridSize() + atomicAdd(args.tile_count + Config::kCursor, 1);
#pragma unroll 1
      for (int turn = 0; turn < S::kInTurn; ++turn) {
        const char *lhs = reinterpret_cast<const char *>(args.lhs) +
                          steps.first * S::kRowBytes;
        int firstN = tile.firstN + turn * Schedule::kTileN;
#pragma unroll 1
        for (int k = steps.first; k < steps.end; ++k) {
          if (schedules && turn == 0 &&
              k == steps.first + minimum(2, S::kTiles / S::kSplit - 1))
            publish(next, rowTiles, ring.tiles());
          ptx::waitForBarrier(barriers.empty(ring.stage), ring.phase() ^ 1);
          if (copiesWeights && k - steps.first >= early)
            copyWeights(tile, firstN, k, ring.stage);
          bool inK =
              !S::kTailK ||
              k * Schedule::kTileK + chunk * kPerVector<Input> < Config::kK;
          unsigned to = destination + unsigned(ring.stage * S::kStageBytes);
#pragma unroll
          for (int first = 0; first < S::kPasses; first += kBatch) {
            if (first >= passes)
              break;
            unsigned from[kBatch];
#pragma unroll
            for (int i = 0; i < kBatch; ++i)
              if constexpr (kOwnRows)
                from[i] = held[first + i];
              else if constexpr (Config::kGather)
                from[i] = __shfl_sync(0xffffffffu, held[first / 8],
                                      (first + i) % 8 * 4 + lane / 8);
              else
                from[i] = unsigned(tile.firstRow + row +
                                   (first + i) * S::kRowsPerPass) *
                          rowChunks;
#pragma unroll
            for (int i = 0; i < kBatch; ++i) {
              if (first + i >= passes)
                break;
              unsigned at =
                  to + unsigned((first + i) * S::kRowsPerPass * S::kRowBytes);
              int r = row + (first + i) * S::kRowsPerPass;
              if constexpr (kOwnRows)
                ptx::copy16<true>(at, lhs, from[i], r < tile.rows && inK);
              else
                ptx::copyBelow(at, args.lhs,
                               from[i] +
                                   unsigned(k * S::Layout::kChunks + chunk),
                               r, inK ? tile.rows : 0);
            }
          }
          if constexpr (S::kStagesScales)
#pragma unroll
            for (int j = 0; j < S::kScaleRows; ++j) {
              int token = int(threadIdx.x) + j * S::kProducers;
              if (token < Schedule::kTileM)
                ptx::copy4(shared + S::kScales +
                               unsigned(ring.stage * S::kScaleBytes) +
                               (kSwapped ? tokenScaleOffset(token)
                                         : unsigned(token) * 4),
                           args.lhs_scale + (scaleRow[j] + unsigned(k)),
                           token < tile.rows);
            }
          ptx::arriveAfterCopies(barriers.full(ring.stage));
          lhs += S::kRowBytes;
          ring.advance();
        }
        early = 0;
      }
      if (tile.isSplit) {
        __syncwarp();
        passExchange();
      }
      tile = take(ring.tiles());
    }
    ptx::commitCopies();
    ptx::waitForCopies<0>();
    if constexpr (Config::kAwaited > 0)
      awaitPredecessor<Config>();
  }

  /// Sets the passes that copy as many tokens as are multiplied.
  struct Counter {
    int &passes;
    template <int kTokens> __device__ __forceinline__ void run() {
      passes = kTokens / S::kRowsPerPass;
    }
  };

  /// One tile of a consumer.
  struct Consumer {
    const WarpSpecialized &cta;
    const SlotTile &tile;
    Index &ring;
    float inverse; ///< see inverseOfScale
    int thread, warpgroup;
    SplitSteps steps;
    bool stores = true; ///< false for the second CTA of a split tile

    /// Adds up what the CTAs of a split tile have; whether this one goes on.
    template <class Worker>
    __device__ __forceinline__ bool exchange(Worker &worker) {
      constexpr int kConsumers = 32 * Schedule::kConsumerWarps;
      if constexpr (S::kSplit > 1)
        if (tile.isSplit)
          stores = exchangeSums<kConsumers>(
              worker, cta.shared, ptx::threadIndex() - S::kProducers, 1);
      return stores;
    }

    template <int kTokens> __device__ __forceinline__ void run() {
      if constexpr (S::kGroups == 1)
        find();
      typename Config::Mma::template Worker<kTokens> worker(thread, warpgroup);
      bool releases = S::kStagesScales || thread % 32 == 0;
      if (!kSwapped && S::kGroups > 1 &&
          tile.rows <= warpgroup * Config::Mma::kRows) {
        passOver(releases);
        return;
      }
      unsigned own = cta.shared + (kSwapped ? 0 : S::kWeightBytes) +
                     unsigned(warpgroup * Config::Mma::kRows * S::kRowBytes);
      if constexpr (!kSwapped) {
        RowScales<Config, decltype(worker)> scales(cta.args.rhs_scale,
                                                   tile.expert, tile.firstN);
        multiplyPromoted(worker, scales, own, releases);
        recount(worker);
      } else if constexpr (ScaleLayout<Config>::kScaled) {
        using Scales = SwappedScales<Config, decltype(worker)>;
        Scales scales(cta.args.rhs_scale, tile.expert, tile.firstN, worker);
        scales.fetchOwn(cta.args.lhs_scale, thread, tile.rows,
                        [&](int r) { return cta.source(tile, r); });
        if constexpr (Config::Mma::kPromoted)
          multiplyPromoted(worker, scales, own, releases);
        else
          multiply(worker, own, releases);
        if (!exchange(worker))
          return;
        recount(worker);
        scales.finish(worker, staging(), 1 + warpgroup, thread);
      } else {
        multiply(worker, own, releases);
        if (!exchange(worker))
          return;
        recount(worker);
      }
      if constexpr (Config::kBias)
        store(worker, cta.args.bias + (long long)tile.expert * Config::kN);
      else
        store(worker, static_cast<const Input *>(nullptr));
    }

    /// Registers are few while it multiplies: what follows from the thread's
    /// index is computed anew where it is needed.
    __device__ __forceinline__ void find() {
      int index = ptx::threadIndex();
      thread = index % 128;
      warpgroup = S::kGroups == 1 ? 0 : index / 128 - 1;
    }
    template <class Worker>
    __device__ __forceinline__ void recount(Worker &worker) {
      find();
      worker.place(thread, warpgroup);
    }

    /// The operand that all warpgroups share, in the first stage.
    __device__ __forceinline__ unsigned others() const {
      return cta.shared + (kSwapped ? S::kWeightBytes : 0);
    }

    /// The place where this warpgroup transposes its results.
    __device__ __forceinline__ unsigned staging() const {
      return cta.shared + S::kStaging +
             unsigned(warpgroup * SwappedStaging<Config>::kBytes);
    }

    template <class Worker, class Bias>
    __device__ __forceinline__ void store(const Worker &worker,
                                          const Bias *bias) {
      auto activation = activationOf<Config>(cta.args, tile.expert);
      if constexpr (quantizesGroups<Config>) {
        using G = GroupStaging<Config>;
        constexpr int kConsumers = 32 * Schedule::kConsumerWarps;
        unsigned staging = cta.shared + S::kStaging;
        int turn = tile.firstN / Schedule::kTileN % S::kInTurn;
        // Nobody reads the group before this one any more.
        if (turn == 0)
          ptx::synchronize(1, kConsumers);
        stageGroup<Config>(worker, staging, thread, warpgroup, tile.firstN,
                           turn, bias, activation);
        if (turn < S::kInTurn - 1)
          return;
        ptx::synchronize(1, kConsumers);
        int group = tile.firstN / S::kTakenN;
        storeGroup<Config, kConsumers>(
            staging, warpgroup * 128 + thread, tile.rows, group,
            cta.args.data + (long long)tile.firstRow * G::kColumns +
                group * 128,
            cta.args.scale + (long long)tile.firstRow * G::kGroups + group);
      } else {
        auto *result =
            storedResult<Config>(cta.args) +
            (long long)tile.firstRow * SwappedStaging<Config>::kColumns;
        if constexpr (!kSwapped)
          storeRows<Config>(worker,
                            cta.shared + S::kStaging +
                                unsigned((warpgroup * 4 + thread / 32) *
                                         RowStaging<Config>::kWarpBytes),
                            thread % 32, tile.rows, tile.firstN, bias, result,
                            activation);
        else
          storeSwapped<Config>(worker, staging(), 1 + warpgroup, thread,
                               warpgroup, tile.rows, tile.firstN, bias, result,
                               inverse, activation);
      }
    }

    /// Gives back the stages of a tile that has no rows for this warpgroup.
    __device__ __forceinline__ void passOver(bool releases) {
#pragma unroll 1
      for (int k = 0; k < S::kTiles; ++k) {
        ptx::waitForBarrier(cta.barriers.full(ring.stage), ring.phase());
        if (releases)
          ptx::arrive(cta.barriers.empty(ring.stage));
        ring.advance();
      }
    }

    /// All of k, a group of multiplies always in flight.
    template <class Worker>
    __device__ __forceinline__ void multiply(Worker &worker, unsigned own,
                                             bool releases) {
      int last = 0;
#pragma unroll 1
      for (int k = steps.first; k < steps.end; ++k) {
        ptx::waitForBarrier(cta.barriers.full(ring.stage), ring.phase());
        ptx::fenceShared();
        unsigned stage = unsigned(ring.stage * S::kStageBytes);
        worker.multiplyAll(own + stage, others() + stage);
        ptx::waitForMultiplies<1>();
        if (k > steps.first && releases)
          ptx::arrive(cta.barriers.empty(last));
        last = ring.stage;
        ring.advance();
      }
      ptx::waitForMultiplies<0>();
      worker.finish();
      if (releases)
        ptx::arrive(cta.barriers.empty(last));
    }

    /// All of k, the sums of each stage added to totals, a piece at a time.
    /// Other multiplies fill the tensor cores meanwhile: those of another CTA,
    /// or those of the other warpgroup, which begins when most of this one's
    /// are done where tokens are so many that adding takes time.
    template <class Worker, class Scales>
    __device__ __forceinline__ void
    multiplyPromoted(Worker &worker, Scales &scales, unsigned own,
                     bool releases) {
      constexpr bool kTurns = S::kTakeTurns && Worker::kPieceSize >= 32;
      constexpr int kLast = Worker::kPieces - 1;
      scales.fetchWeights(steps.first);
#pragma unroll 1
      for (int k = steps.first; k < steps.end; ++k) {
        ptx::waitForBarrier(cta.barriers.full(ring.stage), ring.phase());
        ptx::fenceShared();
        unsigned stage = unsigned(ring.stage * S::kStageBytes);
        scales.nextWeights();
#pragma unroll
        for (int piece = 0; piece <= kLast; ++piece) {
          if constexpr (kTurns)
            ptx::synchronize(S::kTurn + warpgroup, 256);
          worker.multiplyPiece(piece, own + stage, others() + stage);
          // Behind the fence, which waits for what was asked for before.
          if (piece == 0)
            scales.fetchWeights(minimum(k + 1, S::kTiles - 1));
          unsigned ofTokens = Scales::ofThread(
              cta.shared + S::kScales + unsigned(ring.stage * S::kScaleBytes),
              piece, worker);
          typename Scales::OfTokens some[Scales::kChunks];
          scales.fetchTokens(ofTokens, 0, some[0]);
          if constexpr (kTurns) {
            // The other one's multiplies queue up behind the last group.
            ptx::waitForMultiplies<1>();
            ptx::arriveAt(S::kTurn + (warpgroup ^ 1), 256);
          }
          ptx::waitForMultiplies<0>();
          worker.finish();
#pragma unroll
          for (int chunk = 0; chunk < Scales::kChunks; ++chunk) {
            if (chunk + 1 < Scales::kChunks)
              scales.fetchTokens(ofTokens, chunk + 1, some[chunk + 1]);
            // All scales of the stage are read, too.
            if (piece == kLast && releases &&
                chunk == maximum(Scales::kChunks - 2, 0))
              ptx::arrive(cta.barriers.empty(ring.stage));
            worker.template add<Scales::kChunk>(
                piece, chunk * Scales::kChunk,
                [&](int i) { return scales.ofGroup(some[chunk], i); });
          }
        }
        ring.advance();
      }
    }
  };

  /// The other warpgroups.
  __device__ __forceinline__ void consume() const {
    Index ring;
    int thread = int(threadIdx.x) % 128;
    int warpgroup = int(threadIdx.x) / 128 - 1;
    if constexpr (Config::kAwaited == 0)
      awaitPredecessor<Config>();
    float inverse = inverseOfScale<Config>(
        args, blockIdx.x == 0 && threadIdx.x / 32 == S::kProducers / 32);
    if constexpr (S::kTakeTurns)
      if (threadIdx.x / 128 == 2)
        ptx::arriveAt(S::kTurn, 256); // the first turn is the first one's
#pragma unroll 1
    while (true) {
      SlotTile tile = take(ring.tiles());
      ring.countTile();
      if (tile.rows == 0)
        break;
      bool stores = true;
#pragma unroll 1
      do {
        Consumer consumer{*this,
                          tile,
                          ring,
                          inverse,
                          thread,
                          warpgroup,
                          splitSteps<S::kSplit, S::kTiles>(tile.isSplit)};
        if constexpr (kSwapped)
          withTokens<Schedule::kTileM>(tile.rows, consumer);
        else
          consumer.template run<Schedule::kTileM>();
        stores = consumer.stores;
        tile.firstN += Schedule::kTileN;
      } while (S::kInTurn > 1 && tile.firstN % S::kTakenN != 0);
      if constexpr (Config::kCounts) {
        ptx::synchronize(S::kCounted, 32 * Schedule::kConsumerWarps);
        if (threadIdx.x == S::kProducers && stores)
          ptx::countUp(&args.tiles[tile.index].w);
      }
    }
    if constexpr (S::kTakeTurns)
      if (threadIdx.x / 128 == 1)
        ptx::synchronize(S::kTurn, 256);
    if constexpr (Config::kAwaited > 0)
      awaitPredecessor<Config>();
  }
};

} // namespace detail

/// The whole kernel.
template <class Config>
__device__ __forceinline__ void
warpSpecialized(const typename Config::Args &args, unsigned shared) {
  using S = Specialized<Config>;
  using Schedule = typename Config::Schedule;
  detail::WarpSpecialized<Config> cta{args, shared, {shared + S::kBarriers}};
  if (threadIdx.x == 0) {
    ptx::prefetchMap(&args.rhs);
    cta.barriers.initialize();
  }
  __syncthreads();
  if (threadIdx.x < S::kProducers) {
    ptx::giveRegisters<Schedule::kProducerRegisters>();
    cta.produce();
  } else {
    ptx::takeRegisters<Schedule::kConsumerRegisters>();
    cta.consume();
  }
}

} // namespace moe
