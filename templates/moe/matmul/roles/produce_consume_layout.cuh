//===- produce_consume_layout.cuh - shared memory layout --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The shared memory layout of moe/matmul/roles/produce_consume.cuh, the
// mbarriers and named barriers that guard its buffers, and assertions about the
// Configs that it supports.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx_async.cuh"
#include "moe/core/swizzle.cuh"
#include "moe/core/types.cuh"
#include "moe/matmul/epilogue/warpgroup.cuh"
#include "moe/matmul/feed/block_scales.cuh"
#include "moe/matmul/feed/scales.cuh"
#include "moe/matmul/feed/weight_loader.cuh"
#include "moe/matmul/roles/ring.cuh"
#include "moe/matmul/roles/split.cuh"

namespace moe {

/// True if rows of lhs are copied by TMA; the argument is then a tensor map.
template <class Config>
inline constexpr bool mapsRows = kSame<decltype(Config::Args::lhs), TensorMap>;

/// The shared memory layout of a Config.
template <class Config> struct Specialized {
  using Schedule = typename Config::Schedule;
  using Input = typename Config::Input;
  using Mma = typename Config::Mma;
  static constexpr int kRowBytes = Mma::kRowBytes;
  using Layout = Swizzle<kRowBytes>;
  static constexpr int kWeightBytes = WeightLoader<Config>::kBytes;
  static constexpr int kStageBytes =
      kWeightBytes + Schedule::kTileM * kRowBytes;
  /// Rows and columns of a tile as the instructions use them. Each consumer
  /// warpgroup has some of the rows, which are weight rows or tokens.
  static constexpr bool kTokensAreColumns = Mma::kTokensAreColumns;
  static constexpr int kRows =
      kTokensAreColumns ? Schedule::kTileN : Schedule::kTileM;
  static constexpr int kColumns =
      kTokensAreColumns ? Schedule::kTileM : Schedule::kTileN;
  static constexpr int kGroups = kRows / Mma::kRows;
  /// Offsets of the rows and of the columns in a stage, in which weights
  /// precede tokens, and the byte stride of a row.
  static constexpr int kRowsOffset = kTokensAreColumns ? 0 : kWeightBytes;
  static constexpr int kColumnsOffset = kTokensAreColumns ? kWeightBytes : 0;
  static constexpr int kRowPitch =
      kTokensAreColumns ? WeightLoader<Config>::kRowBytes : kRowBytes;
  static constexpr int kProducers = 32 * Schedule::kProducerWarps;
  /// Arrivals at the `full` mbarrier of a stage.
  static constexpr int kArrivals =
      kProducers * (ScaleAtomLoader<Config>::kIsWhole ? 1 : 2) + 1;
  static constexpr int kTiles = ceilDiv(Config::kK, Schedule::kTileK);
  static constexpr bool kTailK = Config::kK % Schedule::kTileK != 0;
  /// Number of weight tiles of kTileN rows that a CTA computes for each tile
  /// that it is assigned.
  static constexpr int kInTurn = WarpgroupEpilogue<Config>::kInTurn;
  static constexpr int kTakenN = kInTurn * Schedule::kTileN;
  static constexpr int kColumnTiles = ceilDiv(Config::kN, kTakenN);
  /// CTAs of a cluster that split the k of a tile if there are too few tiles
  /// for all CTAs (moe/matmul/roles/split.cuh).
  static constexpr int kSplit = splitOf<Config>();
  static_assert(kSplit == 1 || (kTokensAreColumns && Config::kAwaited == 0 &&
                                kInTurn == 1 && kTiles >= 4),
                "a tile that is split is one of the first matmul, with swapped "
                "operands, all of its weight rows at a time");
  /// Token rows that the producers copy in one pass, one chunk a thread.
  static constexpr int kRowsPerPass = kProducers / Layout::kChunks;
  static constexpr int kPasses = Schedule::kTileM / kRowsPerPass;
  /// Token rows of a box of their tensor map, if they have one: those of one
  /// consumer warpgroup if rows are tokens.
  static constexpr int kBoxRows = minimum(int(Schedule::kTileM), 64);
  /// Returns the fewest tokens that an instruction multiplies; all of them if
  /// they are rows. A tile of many rows needs no narrow instruction. Conversion
  /// of codes leaves no registers for one more mainloop.
  static constexpr int fewestTokens() {
    if (!kTokensAreColumns)
      return Schedule::kTileM;
    if (Schedule::kTileM > 160)
      return 64;
    bool needsFew = Schedule::kTileM <= 64 && !takesSlabs<Mma>;
    return minimum(int(Schedule::kTileM), needsFew ? 16 : 32);
  }
  static constexpr int kFewestTokens = fewestTokens();
  /// Granularity of token rows that are copied. Rows that are multiplied beyond
  /// these belong to no token.
  static constexpr int kCopiedTokens =
      minimum(Schedule::kTileM, takesSlabs<Mma> ? 32 : 16);

  /// True if one epilogue serves several widths of the instruction, so that a
  /// kernel compiles sooner. One warpgroup with all totals has no registers for
  /// that.
  static constexpr bool kOneEpilogue =
      kTokensAreColumns && !(Mma::kPromoted && kGroups == 1);

  static constexpr int kStaging = Schedule::kStages * kStageBytes;
  static constexpr int kSlots = kStaging + WarpgroupEpilogue<Config>::kBytes;
  /// True if scales change along k: each stage then has scales of tokens and
  /// weights.
  static constexpr bool kStagesScales = ScaleLayout<Config>::kByGroup;
  /// Arrivals that release a stage: one for each warp, or one for each thread
  /// if all threads read scales or codes, so that every reader is known to be
  /// done.
  static constexpr bool kAllRelease = kStagesScales || takesSlabs<Mma>;
  static constexpr int kReleases =
      sumsInTensorMemory<Mma> && !Mma::kPromoted
          ? kGroups
          : Schedule::kConsumerWarps * (kAllRelease ? 32 : 1);
  /// Returns true if this thread of a warpgroup arrives to release a stage.
  static __device__ __forceinline__ bool releases(int thread) {
    return kAllRelease || thread % 32 == 0;
  }
  /// True if two warpgroups that scale and add partial accumulators take turns:
  /// one issues MMAs while the other adds. They use the named barriers kTurn
  /// and kTurn + 1, which follow those of the epilogue.
  static constexpr bool kTakeTurns =
      kStagesScales && kGroups == 2 && !sumsInTensorMemory<Mma>;
  static constexpr int kTurn = 5;
  /// True if this matmul runs concurrently with another one. A slot then has
  /// more fields.
  static constexpr bool kBeside = Config::kCounts || Config::kAwaited > 0;
  /// The named barrier at which consumers synchronize before a tile is counted.
  static constexpr int kCounted = 7;
  /// The first named barrier of a warpgroup in a mainloop. An epilogue uses
  /// other ones, because another warpgroup may be in it at the same time.
  static constexpr int kInLoop = 8;
  static constexpr int kScales = kSlots + 2 * 16;
  /// True if scales of whole tokens are copied with the first stage of a tile.
  /// This applies if tokens are rows. Consumers then do not wait for the
  /// indices of gathered rows.
  static constexpr bool kFirstScales =
      !kTokensAreColumns && !kStagesScales && ScaleLayout<Config>::kScaled;
  static constexpr int scaleBytes() {
    if constexpr (scalesBlocks<Mma>)
      return ScaleAtomLoader<Config>::kBytes;
    else if constexpr (kStagesScales)
      return Schedule::kTileM * 4 + StageScales<Config>::kBytes;
    else
      return kFirstScales ? Schedule::kTileM * 4 : 0;
  }
  static constexpr int kScaleBytes = scaleBytes();
  static constexpr int columnsOfSums() {
    int columns = 32;
    if constexpr (sumsInTensorMemory<Mma>) {
      using Worker = typename Mma::template Worker<Schedule::kTileM>;
      int needed = kGroups * Worker::kSumColumns;
      if constexpr (scalesBlocks<Mma>)
        needed += Schedule::kStages * Worker::kScaleColumns;
      while (columns < needed)
        columns *= 2;
    }
    return columns;
  }
  static constexpr int kScaleRows = ceilDiv(Schedule::kTileM, kProducers);
  static constexpr int kBarriers = kScales + Schedule::kStages * kScaleBytes;
  /// Columns of tensor memory for the accumulators and for the scales of the
  /// stages. Their address is stored at kSumsAddress. The accumulators also
  /// have mbarriers at kMultiplied, on which the MMAs of a tile complete: one
  /// for each warpgroup, or one for each of its stages if accumulators are
  /// promoted.
  static constexpr int kSumColumns = columnsOfSums();
  static constexpr int kMultiplied =
      kBarriers + (2 * Schedule::kStages + 4) * 8;
  static constexpr int kEnds = Mma::kPromoted ? Schedule::kStages : 1;
  static constexpr int kSumsAddress = kMultiplied + kGroups * kEnds * 8;
  static constexpr int kBytes =
      sumsInTensorMemory<Mma> ? kSumsAddress + 8 : kMultiplied;

  static_assert(Schedule::kTileK * int(sizeof(Input)) == kRowBytes,
                "kTileK must be 128 bytes of the operands");
  static_assert(Schedule::kTileM % kRowsPerPass == 0 &&
                    Schedule::kTileM % 16 == 0 && Schedule::kTileM <= 256,
                "kTileM must be a multiple of 16, at most 256");
  static_assert(!kTokensAreColumns || (Schedule::kTileN % Mma::kRows == 0 &&
                                       Schedule::kTileN <= 256),
                "kTileN must be 64 or 128 rows for each warpgroup");
  static_assert(kTokensAreColumns ||
                    (Schedule::kTileM % Mma::kRows == 0 &&
                     (!quantizesResult<Config> || quantizesGroups<Config>)),
                "kTileM must be 64 or 128 tokens for each warpgroup, and a "
                "result is quantized by groups alone, where rows are tokens");
  static_assert(Schedule::kProducerWarps == 4 &&
                    Schedule::kConsumerWarps == 4 * kGroups,
                "one warpgroup produces, others consume");
  static_assert(Schedule::kStages >= 2, "the ring needs two stages or more");
  static_assert(!Mma::kPromoted || takesSlabs<Mma> ||
                    Config::Quant::kPromoteK == Schedule::kTileK,
                "promoted sums are of one stage");
  static_assert(kColumns * Mma::kRows <=
                    (takesSlabs<Mma> && !Mma::kPromoted ? 160 : 128) * 128,
                "a thread has room for 128 sums, or 160 where nothing else is "
                "summed");
  static_assert(!sumsInTensorMemory<Mma> ||
                    (kSumColumns * Schedule::kCtasPerSm <= 512 && kSplit == 1),
                "the CTAs of a multiprocessor share 512 columns of tensor "
                "memory");
  static_assert(!sumsInTensorMemory<Mma> || Mma::kPromoted || kInTurn == 1,
                "the barrier at which a tile's multiplies end has a phase of "
                "each tile");
  static_assert(!scalesBlocks<Mma> || kGroups == 1,
                "the columns of a stage's scales are those of one warpgroup");
  static_assert(Mma::kPromoted || !kStagesScales,
                "scales of groups along k multiply promoted sums");
  static_assert(!(kTokensAreColumns && quantizesGroups<Config>) ||
                    ScaleLayout<Config>::kLhs != quant::LhsScale::Token,
                "scales of tokens are handed over where a group of the result "
                "lies");
  // A consumer waits for registers until the producers have released theirs.
  static_assert(kProducers * Schedule::kProducerRegisters +
                        32 * Schedule::kConsumerWarps *
                            Schedule::kConsumerRegisters <=
                    ptx::registersOfCta(Config::kThreads, Schedule::kCtasPerSm),
                "more registers than the launch allots");
  static_assert(Schedule::kProducerRegisters % 8 == 0 &&
                    Schedule::kConsumerRegisters % 8 == 0,
                "registers come in eights");
  static_assert(Config::kK % kPerVector<Input> == 0,
                "rows must be whole 16-byte chunks");
  static_assert(!mapsRows<Config> ||
                    (!Config::kGather && Schedule::kTileM % kBoxRows == 0),
                "rows that come by a tensor map lie one behind the other, and "
                "a tile has whole boxes");
  static_assert(Config::kCursor == 1 || Config::kCursor == 2,
                "kCursor must be 1 or 2");
  static_assert(Config::kAwaited == 0 ||
                    (Config::kTilesEarly && !Config::kGather),
                "the second of two matmuls alone runs beside the first");
};

/// Shared-memory addresses of the mbarriers.
template <class Config>
struct Barriers : RingBarriers<Config::Schedule::kStages> {
  static constexpr int kStages = Config::Schedule::kStages;
  __device__ __forceinline__ unsigned slotFull(int slot) const {
    return this->base + unsigned(2 * kStages + slot) * 8;
  }
  __device__ __forceinline__ unsigned slotEmpty(int slot) const {
    return this->base + unsigned(2 * kStages + 2 + slot) * 8;
  }
  /// Returns the mbarrier on which the MMAs of a warpgroup's tile complete, or
  /// those of a stage (see Specialized::kEnds).
  __device__ __forceinline__ unsigned multiplied(int group, int stage) const {
    return this->base + unsigned(2 * kStages + 4 +
                                 group * Specialized<Config>::kEnds + stage) *
                            8;
  }
  /// Initializes the mbarriers. Called by one thread, before all threads pass a
  /// __syncthreads().
  __device__ __forceinline__ void initialize() const {
    using S = Specialized<Config>;
#pragma unroll 1
    for (int stage = 0; stage < kStages; ++stage) {
      ptx::initializeBarrier(this->full(stage), S::kArrivals);
      ptx::initializeBarrier(this->empty(stage), S::kReleases);
    }
#pragma unroll
    for (int slot = 0; slot < 2; ++slot) {
      ptx::initializeBarrier(slotFull(slot), 1);
      ptx::initializeBarrier(slotEmpty(slot), Config::kThreads / 32);
    }
    if constexpr (sumsInTensorMemory<typename Config::Mma>)
#pragma unroll
      for (int i = 0; i < S::kGroups * S::kEnds; ++i)
        ptx::initializeBarrier(multiplied(0, i), 1);
    ptx::publishBarriers();
  }
};

} // namespace moe
