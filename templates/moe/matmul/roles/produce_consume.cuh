//===- produce_consume.cuh - producers and consumers ------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A persistent CTA for an engine that multiplies out of shared memory. The
// warps of the first warpgroup fill a ring of stages: one thread has the copy
// engine bring the weights, all of them gather token rows with cp.async, or one
// has the copy engine bring these, too. All arrive at the stage's barrier
// `full`. Each other warpgroup multiplies its weight rows by all tokens of the
// tile, or its tokens by all weight rows, one group of multiplies in flight,
// and gives a stage back (barrier `empty`) one step late; sums that are
// promoted wait for each stage, and those of weight rows take turns, or leave
// the tensor cores to the warpgroup of a second CTA. Producers run into the
// next tile while consumers store the last one. Where 128 columns of the result
// share a scale, a tile is all column tiles of such a group, one after the
// other (quantize_groups.cuh), or has whole groups (quantize_row_groups.cuh).
//
// The weights of the first tile are fetched while the predecessor still runs,
// if it did not write the tile list. Where tiles are few, clusters of two may
// share the k of each (split.cuh).
//
// Each role has a file of its own: which tiles (tile_source.cuh), the copies of
// a stage (weight_loader.cuh, token_loader.cuh), the multiplies (mainloop.cuh).
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/activation_numbers.cuh"
#include "moe/core/pdl.cuh"
#include "moe/core/ptx.cuh"
#include "moe/core/ptx_async.cuh"
#include "moe/core/ptx_tcgen05.cuh"
#include "moe/core/rank.cuh"
#include "moe/core/types.cuh"
#include "moe/matmul/epilogue/warpgroup.cuh"
#include "moe/matmul/feed/scales.cuh"
#include "moe/matmul/feed/scales_rows.cuh"
#include "moe/matmul/feed/token_loader.cuh"
#include "moe/matmul/feed/weight_loader.cuh"
#include "moe/matmul/loop/mainloop.cuh"
#include "moe/matmul/roles/produce_consume_layout.cuh"
#include "moe/matmul/roles/ring.cuh"
#include "moe/matmul/roles/split.cuh"
#include "moe/matmul/roles/tile_source.cuh"

namespace moe {

namespace detail {

template <class Config> struct WarpSpecialized {
  using Args = typename Config::Args;
  using Schedule = typename Config::Schedule;
  using Input = typename Config::Input;
  using S = Specialized<Config>;
  using Epilogue = WarpgroupEpilogue<Config>;
  using Index = RingIndex<Schedule::kStages>;

  TileSource<Config> tiles;
  WeightLoader<Config> weights;

  /// Begins to copy the weights of step k of a tile, of its rows from firstN
  /// on.
  __device__ __forceinline__ void copyWeights(const SlotTile &tile, int firstN,
                                              int k, int stage) const {
    weights.copy(tiles.shared + unsigned(stage * S::kStageBytes), firstN, k,
                 tile.expert, tiles.barriers.full(stage));
  }

  /// The first warpgroup.
  __device__ __forceinline__ void produce() const {
    // Scheduling and the copy engine are for two warps, so that the latency of
    // the one does not delay the other.
    TileCursor<Config> cursor{tiles, threadIdx.x == S::kProducers - 32};
    bool copiesWeights = threadIdx.x == 0;
    TokenChunk<Config> chunk(tiles.shared);
    Index ring;
    if constexpr (!Config::kTilesEarly)
      awaitPredecessor<Config>();
    cursor.begin();
    SlotTile tile = tiles.take(0);
    // Steps of the first tile whose weights are on their way.
    int early = 0;
    if constexpr (Config::kTilesEarly) {
      if (tile.rows > 0) {
        SplitSteps steps = tiles.steps(tile);
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
      tiles.awaitRows(tile);
      TokenLoader<Config> tokens(tiles, tile, chunk);
      SplitSteps steps = tiles.steps(tile);
      int next = cursor.take();
#pragma unroll 1
      for (int turn = 0; turn < S::kInTurn; ++turn) {
        int firstN = tile.firstN + turn * Schedule::kTileN;
        tokens.beginSteps(steps.first, firstN);
#pragma unroll 1
        for (int k = steps.first; k < steps.end; ++k) {
          cursor.handOver(next, turn, k, steps.first, ring.tiles());
          ptx::waitForBarrier(tiles.barriers.empty(ring.stage),
                              ring.phase() ^ 1);
          if (copiesWeights && k - steps.first >= early)
            copyWeights(tile, firstN, k, ring.stage);
          tokens.copy(k, ring.stage);
          ring.advance();
        }
        early = 0;
      }
      if (tile.isSplit) {
        __syncwarp();
        passExchange();
      }
      tile = tiles.take(ring.tiles());
    }
    ptx::commitCopies();
    ptx::waitForCopies<0>();
    if constexpr (Config::kAwaited > 0)
      awaitPredecessor<Config>();
  }

  /// Waits until it is this warpgroup's turn to multiply.
  static __device__ __forceinline__ void beginTurn(int warpgroup) {
    ptx::synchronize(S::kTurn + warpgroup, 256);
  }
  /// The next turn is the other one's.
  static __device__ __forceinline__ void endTurn(int warpgroup) {
    ptx::arriveAt(S::kTurn + (warpgroup ^ 1), 256);
  }

  /// The operands of a warpgroup in the ring (mainloop.cuh).
  struct Operands {
    static constexpr bool kTakesTurns = S::kTakeTurns;
    const Barriers<Config> &barriers;
    unsigned shared; ///< of the ring
    unsigned own;    ///< the warpgroup's rows in the first stage
    int warpgroup;
    int block;     ///< its first of 64 weight rows
    bool releases; ///< this thread gives stages back
    int tokens;    ///< of the tile
    unsigned sums; ///< in tensor memory

    __device__ __forceinline__ void await(const Index &ring) const {
      ptx::waitForBarrier(barriers.full(ring.stage), ring.phase());
      // The copy engine's bytes need none.
      if constexpr (!mapsRows<Config>)
        ptx::fenceShared();
    }
    __device__ __forceinline__ unsigned rows(int, int stage) const {
      return own + unsigned(stage * S::kStageBytes);
    }
    __device__ __forceinline__ unsigned weights(int stage) const {
      return shared + unsigned(stage * S::kStageBytes);
    }
    __device__ __forceinline__ unsigned columns(int, int stage) const {
      return shared + S::kColumnsOffset + unsigned(stage * S::kStageBytes);
    }
    __device__ __forceinline__ unsigned scales(int, int stage) const {
      return shared + S::kScales + unsigned(stage * S::kScaleBytes);
    }
    __device__ __forceinline__ unsigned weightScales(int stage) const {
      if constexpr (S::kStagesScales)
        return scales(0, stage) + unsigned(Schedule::kTileM * 4) +
               StageScales<Config>::ofWarpgroup(block);
      return 0;
    }
    __device__ __forceinline__ void giveBack(int stage) const {
      if (releases)
        ptx::arrive(barriers.empty(stage));
    }
    /// Tokens that are multiplied: those behind the tile's are zeros.
    __device__ __forceinline__ int paddedTokens() const {
      return ceilDiv(tokens, 16) * 16;
    }
    __device__ __forceinline__ unsigned emptyBarrier(int stage) const {
      return barriers.empty(stage);
    }
    __device__ __forceinline__ unsigned multiplied(int stage) const {
      return barriers.multiplied(warpgroup, stage);
    }
    /// The named barrier of the warpgroup.
    __device__ __forceinline__ int barrier() const {
      return S::kInLoop + warpgroup;
    }
    __device__ __forceinline__ void beginTurn() const {
      WarpSpecialized::beginTurn(warpgroup);
    }
    __device__ __forceinline__ void endTurn() const {
      WarpSpecialized::endTurn(warpgroup);
    }
  };

  /// The sums of a warpgroup for a full tile.
  using Sums = typename Config::Mma::template Worker<Schedule::kTileM>;

  /// One tile of a consumer.
  struct Consumer {
    const WarpSpecialized &cta;
    const SlotTile &tile;
    Index &ring;
    float inverse; ///< see inverseOfScale
    int thread, warpgroup;
    unsigned sumsAddress; ///< in tensor memory
    bool stores = true;   ///< false for the second CTA of a split tile

    __device__ __forceinline__ void run() {
      if (!S::kTokensAreColumns && S::kGroups > 1 &&
          tile.rows <= warpgroup * Config::Mma::kRows) {
        passOver();
        return;
      }
      if constexpr (S::kGroups == 1)
        find();
      const WeightScales<Config> ofRows =
          cta.firstScales(tile, warpgroup, thread);
      if constexpr (sumsInTensorMemory<typename Config::Mma>) {
        runAll<Sums>(ofRows);
      } else if constexpr (S::kOneEpilogue) {
        auto scales = scalesOf<Sums>(ofRows);
        fetchOwn(scales);
        Sums sums;
        Parts<decltype(scales)> parts{*this, ofRows, sums, scales};
        withTokens<Schedule::kTileM, S::kFewestTokens>(tile.rows, parts);
        finish(sums, scales);
      } else {
        Widths widths{*this, ofRows};
        withTokens<Schedule::kTileM, S::kFewestTokens>(tile.rows, widths);
      }
    }

    /// Multiplies as many tokens as withTokens says. What follows is one code
    /// for all of them.
    template <class Scales> struct Parts {
      Consumer &consumer;
      const WeightScales<Config> &ofRows;
      Sums &sums; ///< not defined yet
      Scales &scales;

      template <int kTokens> __device__ __forceinline__ void run() {
        using Worker = typename Config::Mma::template Worker<kTokens>;
        if constexpr (kTokens == Schedule::kTileM) {
          sums.begin(consumer.thread, consumer.warpgroup);
          consumer.multiply(sums, scales);
        } else {
          Worker part;
          part.begin(consumer.thread, consumer.warpgroup);
          auto ofPart = scalesOf<Worker>(ofRows);
          consumer.multiply(part, ofPart);
          sums.take(part);
        }
      }
    };

    /// Likewise, with code of its own for each number of tokens.
    struct Widths {
      Consumer &consumer;
      const WeightScales<Config> &ofRows;
      template <int kTokens> __device__ __forceinline__ void run() {
        consumer
            .template runAll<typename Config::Mma::template Worker<kTokens>>(
                ofRows);
      }
    };

    template <class Worker>
    __device__ __forceinline__ void runAll(const WeightScales<Config> &ofRows) {
      Worker worker;
      worker.begin(thread, warpgroup);
      auto scales = scalesOf<Worker>(ofRows);
      fetchOwn(scales);
      multiply(worker, scales);
      finish(worker, scales);
    }

    template <class Scales>
    __device__ __forceinline__ void fetchOwn(Scales &scales) {
      scales.fetchOwn(cta.tiles.args, thread, tile.rows,
                      [&](int r) { return cta.tiles.source(tile, r); });
    }

    /// Scales the sums and stores them.
    template <class Worker, class Scales>
    __device__ __forceinline__ void finish(Worker &worker, Scales &scales) {
      if (!stores)
        return;
      find();
      worker.place(thread, warpgroup);
      scales.finish(
          worker, Epilogue::scratch(cta.tiles.shared + S::kStaging, warpgroup),
          1 + warpgroup, thread);
      const Args &args = cta.tiles.args;
      if constexpr (Config::kBias)
        store(worker, biasOf(args, (long long)tile.expert * Config::kN));
      else
        store(worker, static_cast<const Input *>(nullptr));
    }

    /// The main loop, and the exchange of a tile that is split.
    template <class Worker, class Scales>
    __device__ __forceinline__ void multiply(Worker &worker, Scales &scales) {
      unsigned shared = cta.tiles.shared;
      unsigned own = shared + S::kRowsOffset +
                     unsigned(warpgroup * Config::Mma::kRows * S::kRowPitch);
      Operands operands{cta.tiles.barriers,
                        shared,
                        own,
                        warpgroup,
                        warpgroup * (Config::Mma::kRows / 64),
                        S::releases(thread),
                        tile.rows,
                        sumsOfWarpgroup()};
      mainloopOf<Config>().run(worker, scales, operands, ring,
                               TileSource<Config>::steps(tile));
      exchange(worker);
    }

    __device__ __forceinline__ unsigned sumsOfWarpgroup() const {
      if constexpr (sumsInTensorMemory<typename Config::Mma>)
        return sumsAddress + unsigned(warpgroup * Sums::kSumColumns);
      return 0;
    }

    /// Registers are few while it multiplies: what follows from the thread's
    /// index is computed anew where it is needed.
    __device__ __forceinline__ void find() {
      int index = ptx::threadIndex();
      thread = index % 128;
      warpgroup = S::kGroups == 1 ? 0 : index / 128 - 1;
    }

    /// Adds up what the CTAs of a split tile have.
    template <class Worker>
    __device__ __forceinline__ void exchange(Worker &worker) {
      constexpr int kConsumers = 32 * Schedule::kConsumerWarps;
      if constexpr (S::kSplit > 1)
        if (tile.isSplit)
          stores = exchangeSums<kConsumers>(
              worker, cta.tiles.shared, ptx::threadIndex() - S::kProducers, 1);
    }

    template <class Worker, class Bias>
    __device__ __forceinline__ void store(const Worker &worker,
                                          const Bias *bias) {
      const Args &args = cta.tiles.args;
      StoredTile at{cta.tiles.shared + S::kStaging,
                    thread,
                    warpgroup,
                    tile.firstRow,
                    tile.rows,
                    tile.firstN,
                    inverse};
      Epilogue::store(worker, args, at, bias,
                      activationOf<Config>(args, tile.expert));
    }

    /// Gives back the stages of a tile that has no rows for this warpgroup, and
    /// passes its turns on.
    __device__ __forceinline__ void passOver() {
      const Barriers<Config> &barriers = cta.tiles.barriers;
#pragma unroll 1
      for (int k = 0; k < S::kTiles; ++k) {
        ptx::waitForBarrier(barriers.full(ring.stage), ring.phase());
        // The other warpgroup multiplies each piece in its turn.
        if constexpr (S::kTakeTurns)
#pragma unroll
          for (int piece = 0; piece < Sums::kPieces; ++piece) {
            WarpSpecialized::beginTurn(warpgroup);
            WarpSpecialized::endTurn(warpgroup);
          }
        if (S::releases(thread))
          ptx::arrive(barriers.empty(ring.stage));
        ring.advance();
      }
    }
  };

  /// The scales of a thread's weight rows of a tile.
  __device__ __forceinline__ WeightScales<Config>
  firstScales(const SlotTile &tile, int warpgroup, int thread) const {
    int row = WeightScales<Config>::firstRow(
        Sums::rowOfThread(warpgroup * 128 + thread), thread);
    return {tiles.args, tile.expert, tile.firstN + row};
  }

  /// The other warpgroups.
  __device__ __forceinline__ void consume() const {
    Index ring;
    int thread = int(threadIdx.x) % 128;
    int warpgroup = int(threadIdx.x) / 128 - 1;
    if constexpr (Config::kAwaited == 0)
      awaitPredecessor<Config>();
    float inverse = inverseOfScale<Config>(
        tiles.args, blockIdx.x == 0 && threadIdx.x / 32 == S::kProducers / 32);
    unsigned sumsAddress = 0;
    if constexpr (sumsInTensorMemory<typename Config::Mma>)
      sumsAddress = ptx::loadShared(tiles.shared + S::kSumsAddress);
    if constexpr (S::kTakeTurns)
      if (threadIdx.x / 128 == 2)
        ptx::arriveAt(S::kTurn, 256); // the first turn is the first one's
#pragma unroll 1
    while (true) {
      SlotTile tile = tiles.take(ring.tiles());
      ring.countTile();
      if (tile.rows == 0)
        break;
      bool stores = true;
#pragma unroll 1
      do {
        Consumer consumer{*this,  tile,      ring,       inverse,
                          thread, warpgroup, sumsAddress};
        consumer.run();
        stores = consumer.stores;
        tile.firstN += Schedule::kTileN;
      } while (S::kInTurn > 1 && tile.firstN % S::kTakenN != 0);
      tiles.count(tile, stores);
    }
    if constexpr (S::kTakeTurns)
      if (threadIdx.x / 128 == 1)
        ptx::synchronize(S::kTurn, 256);
    if constexpr (sumsInTensorMemory<typename Config::Mma>) {
      // All warps have read the last sums.
      ptx::synchronize(S::kTurn, 32 * Schedule::kConsumerWarps);
      if (threadIdx.x / 32 == S::kProducers / 32)
        ptx::giveBackTensorMemory<S::kSumColumns>(sumsAddress);
    }
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
  detail::WarpSpecialized<Config> cta{{args, shared, {shared + S::kBarriers}},
                                      {args}};
  if (threadIdx.x == 0) {
    cta.weights.prefetch();
    if constexpr (mapsRows<Config>)
      ptx::prefetchMap(&args.lhs);
    cta.tiles.barriers.initialize();
  }
  if constexpr (sumsInTensorMemory<typename Config::Mma>) {
    if (threadIdx.x / 32 == S::kProducers / 32)
      ptx::allotTensorMemory<S::kSumColumns>(shared + S::kSumsAddress);
    ptx::fenceBeforeBarrier();
  }
  __syncthreads();
  if constexpr (sumsInTensorMemory<typename Config::Mma>)
    ptx::fenceAfterBarrier();
  if (threadIdx.x < S::kProducers) {
    ptx::giveRegisters<Schedule::kProducerRegisters>();
    cta.produce();
  } else {
    ptx::takeRegisters<Schedule::kConsumerRegisters>();
    cta.consume();
  }
}

} // namespace moe
