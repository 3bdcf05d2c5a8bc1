//===- produce_consume.cuh - producers and consumers ------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The warp roles of warpgroup engines: a persistent, warp-specialized kernel.
//
// Producers: the first warpgroup fills a ring of pipeline stages. Thread 0
// issues the copies of the weights (TMA boxes, or bulk copies of blocks of
// slabs) and of weight scales that are in scale blocks in memory. If 4-bit
// codes are padded in shared memory (spreadsCodes), all producer threads copy
// the weights with cp.async. All producer threads gather token rows with
// cp.async, or thread 64 copies them by TMA. The first thread of the last
// producer warp draws tiles. All producer threads arrive at the stage's
// mbarrier `full`, which completes when the copies have completed too.
// Producers proceed to the next tile while consumers store the previous tile.
//
// Consumers: each other warpgroup multiplies its weight rows by all tokens of
// the tile, or its tokens by all weight rows. It releases a stage (mbarrier
// `empty`) when the stage's MMAs have completed:
//
//   wgmma    One group of MMAs stays in flight, so a stage is released one k
//            tile late (moe/matmul/loop/accumulate.cuh).
//   tcgen05  The completion of a stage's MMAs itself arrives at `empty`
//            (moe/matmul/loop/issue.cuh).
//   promoted accumulators
//            A warpgroup waits for its MMAs after each stage. To keep the
//            tensor cores busy meanwhile, two such warpgroups take turns, or a
//            second CTA runs on the SM (moe/matmul/loop/promote.cuh).
//
// If 128 columns of the result share a scale, an assigned tile is either all
// column tiles of such a group, one after another
// (moe/matmul/epilogue/quantize_groups.cuh), or contains whole groups
// (moe/matmul/epilogue/quantize_row_groups.cuh).
//
// With kTilesEarly, the weight copies of the first tile are issued before
// griddepcontrol.wait. With kSplit, if a launch has few tiles, the two CTAs
// of a cluster split the k of a tile (moe/matmul/roles/split.cuh).
//
// The parts have separate files:
//
//   moe/matmul/roles/tile_source.cuh   assigns tiles to CTAs
//   moe/matmul/feed/weight_loader.cuh  copies the weights of a stage
//   moe/matmul/feed/token_loader.cuh   copies the tokens and scales of a stage
//   moe/matmul/loop/mainloop.cuh       issues the MMAs
//   moe/matmul/epilogue/warpgroup.cuh  stores the results
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
#include "moe/matmul/feed/weight_scale_atoms.cuh"
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

  /// Issues the weight copy for k tile `k` of an output tile, from weight row
  /// firstN on.
  __device__ __forceinline__ void copyWeights(const SlotTile &tile, int firstN,
                                              int k, int stage) const {
    if constexpr (ScaleAtomLoader<Config>::kIsBulk)
      WeightScaleAtoms<Config>::copy(tiles.args, tile.expert, firstN, k,
                                     tiles.shared + S::kScales +
                                         unsigned(stage * S::kScaleBytes),
                                     tiles.barriers.full(stage));
    weights.copy(tiles.shared + unsigned(stage * S::kStageBytes), firstN, k,
                 tile.expert, tiles.barriers.full(stage));
  }

  /// Runs the producer warpgroup.
  __device__ __forceinline__ void produce() const {
    // One warp draws tiles and another warp issues the weight copies, so that
    // the latency of one task does not delay the other task.
    TileCursor<Config> cursor{tiles, threadIdx.x == S::kProducers - 32};
    bool copiesWeights = threadIdx.x == 0;
    TokenChunk<Config> chunk(tiles.shared);
    Index ring;
    if constexpr (!Config::kTilesEarly)
      awaitPredecessor<Config>();
    cursor.begin();
    SlotTile tile = tiles.take(0);
    // The weight copies of the first `early` k tiles of the CTA's first tile
    // are already issued.
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

  /// Waits until it is this warpgroup's turn to issue MMAs.
  static __device__ __forceinline__ void beginTurn(int warpgroup) {
    ptx::synchronize(S::kTurn + warpgroup, 256);
  }
  /// Passes the turn to the other warpgroup.
  static __device__ __forceinline__ void endTurn(int warpgroup) {
    ptx::arriveAt(S::kTurn + (warpgroup ^ 1), 256);
  }

  /// A warpgroup's operands in the ring, as moe/matmul/loop/mainloop.cuh reads
  /// them.
  struct Operands {
    static constexpr bool kTakesTurns = S::kTakeTurns;
    const Barriers<Config> &barriers;
    unsigned shared; ///< shared-memory address of the ring
    unsigned own;    ///< address of the warpgroup's rows in stage 0
    int warpgroup;
    int block;     ///< index of the first block of 64 weight rows
    bool releases; ///< true if this thread releases stages
    int tokens;    ///< tokens of the tile
    unsigned sums; ///< tensor-memory address of the accumulators
    int turn;      ///< index of the column tile among those of the tile

    __device__ __forceinline__ void awaitCopies(const Index &ring) const {
      ptx::waitForBarrier(barriers.full(ring.stage), ring.phase());
    }
    __device__ __forceinline__ void fenceCopies() const {
      // Data that TMA wrote needs no proxy fence; data that cp.async wrote
      // does.
      if constexpr (!mapsRows<Config>)
        ptx::fenceShared();
    }
    __device__ __forceinline__ void await(const Index &ring) const {
      awaitCopies(ring);
      fenceCopies();
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
      if constexpr (StageScales<Config>::kCount > 0)
        return scales(0, stage) + unsigned(Schedule::kTileM * 4) +
               StageScales<Config>::ofWarpgroup(block);
      return 0;
    }
    __device__ __forceinline__ void giveBack(int stage) const {
      if (releases)
        ptx::arrive(barriers.empty(stage));
    }
    /// Returns the number of tokens to multiply, a multiple of 16. Tokens past
    /// the end of the tile are zeros.
    __device__ __forceinline__ int paddedTokens() const {
      return ceilDiv(tokens, 16) * 16;
    }
    __device__ __forceinline__ unsigned emptyBarrier(int stage) const {
      return barriers.empty(stage);
    }
    __device__ __forceinline__ unsigned multiplied(int stage) const {
      return barriers.multiplied(warpgroup, stage);
    }
    /// Returns the phase of the mbarrier on which the MMAs of this column tile
    /// complete.
    __device__ __forceinline__ int endPhase(const Index &ring) const {
      return ((ring.tiles() - 1) * S::kInTurn + turn) & 1;
    }
    /// Returns the warpgroup's named barrier.
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

  /// A warpgroup's accumulators for a full tile.
  using Sums = typename Config::Mma::template Worker<Schedule::kTileM>;

  /// The work of a consumer warpgroup for one tile.
  struct Consumer {
    const WarpSpecialized &cta;
    const SlotTile &tile;
    Index &ring;
    float inverse; ///< see inverseOfScale
    int thread, warpgroup;
    unsigned sumsAddress; ///< tensor-memory address of its accumulators
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

    /// Runs the mainloop for the token count that withTokens selects. All token
    /// counts share the epilogue, which therefore is not in this class.
    template <class Scales> struct Parts {
      Consumer &consumer;
      const WeightScales<Config> &ofRows;
      Sums &sums; ///< uninitialized until run()
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

    /// Like Parts, but with a separate epilogue for each token count.
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

    /// Scales the accumulators and stores the results.
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

    /// Runs the mainloop and, for a split tile, the exchange of accumulators.
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
                        sumsOfWarpgroup(),
                        tile.firstN / Schedule::kTileN % S::kInTurn};
      mainloopOf<Config>().run(worker, scales, operands, ring,
                               TileSource<Config>::steps(tile));
      exchange(worker);
    }

    __device__ __forceinline__ unsigned sumsOfWarpgroup() const {
      if constexpr (sumsInTensorMemory<typename Config::Mma>)
        return sumsAddress + unsigned(warpgroup * Sums::kSumColumns);
      return 0;
    }

    /// Recomputes `thread` and `warpgroup`, because the mainloop has no
    /// registers left to keep them.
    __device__ __forceinline__ void find() {
      int index = ptx::threadIndex();
      thread = index % 128;
      warpgroup = S::kGroups == 1 ? 0 : index / 128 - 1;
    }

    /// For a split tile, adds up the accumulators of the cluster's CTAs.
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

    /// Releases the pipeline stages of a tile in which this warpgroup has no
    /// rows, and passes its turns to the other warpgroup.
    __device__ __forceinline__ void passOver() {
      const Barriers<Config> &barriers = cta.tiles.barriers;
#pragma unroll 1
      for (int k = 0; k < S::kTiles; ++k) {
        ptx::waitForBarrier(barriers.full(ring.stage), ring.phase());
        // The other warpgroup takes a turn for each piece (see
        // moe/matmul/contract.cuh).
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

  /// Returns the scales of a thread's weight rows in a tile.
  __device__ __forceinline__ WeightScales<Config>
  firstScales(const SlotTile &tile, int warpgroup, int thread) const {
    int row = WeightScales<Config>::firstRow(
        Sums::rowOfThread(warpgroup * 128 + thread), thread);
    return {tiles.args, tile.expert, tile.firstN + row};
  }

  /// Runs a consumer warpgroup.
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
        ptx::arriveAt(S::kTurn,
                      256); // passes the first turn to the first warpgroup
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
      // Waits until all warps have read the last accumulators.
      ptx::synchronize(S::kTurn, 32 * Schedule::kConsumerWarps);
      if (threadIdx.x / 32 == S::kProducers / 32)
        ptx::giveBackTensorMemory<S::kSumColumns>(sumsAddress);
    }
    if constexpr (Config::kAwaited > 0)
      awaitPredecessor<Config>();
  }
};

} // namespace detail

/// Runs the kernel.
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
