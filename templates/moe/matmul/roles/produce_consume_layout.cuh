//===- produce_consume_layout.cuh - what lies where -------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The shared memory of produce_consume.cuh: what lies in which place, whose
// turn a place is, and which choices of a Config it can be instantiated with.
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

/// Whether rows of lhs come by a tensor map, which is the argument then.
template <class Config>
inline constexpr bool mapsRows = kSame<decltype(Config::Args::lhs), TensorMap>;

/// The layout of shared memory for a Config.
template <class Config> struct Specialized {
  using Schedule = typename Config::Schedule;
  using Input = typename Config::Input;
  using Mma = typename Config::Mma;
  static constexpr int kRowBytes = Mma::kRowBytes;
  using Layout = Swizzle<kRowBytes>;
  static constexpr int kWeightBytes = WeightLoader<Config>::kBytes;
  static constexpr int kStageBytes =
      kWeightBytes + Schedule::kTileM * kRowBytes;
  /// Rows and columns of a tile, as the instructions have them. Each consuming
  /// warpgroup has some of the rows, which are weight rows or tokens.
  static constexpr bool kTokensAreColumns = Mma::kTokensAreColumns;
  static constexpr int kRows =
      kTokensAreColumns ? Schedule::kTileN : Schedule::kTileM;
  static constexpr int kColumns =
      kTokensAreColumns ? Schedule::kTileM : Schedule::kTileN;
  static constexpr int kGroups = kRows / Mma::kRows;
  /// The place of the rows and of the columns in a stage, whose weights are in
  /// front of its tokens, and the bytes of a row.
  static constexpr int kRowsOffset = kTokensAreColumns ? 0 : kWeightBytes;
  static constexpr int kColumnsOffset = kTokensAreColumns ? kWeightBytes : 0;
  static constexpr int kRowPitch =
      kTokensAreColumns ? WeightLoader<Config>::kRowBytes : kRowBytes;
  static constexpr int kProducers = 32 * Schedule::kProducerWarps;
  /// Arrivals at the full barrier of a stage.
  static constexpr int kArrivals =
      kProducers * (ScaleAtomLoader<Config>::kIsWhole ? 1 : 2) + 1;
  static constexpr int kTiles = ceilDiv(Config::kK, Schedule::kTileK);
  static constexpr bool kTailK = Config::kK % Schedule::kTileK != 0;
  /// Weight tiles of kTileN rows that a CTA takes at a time.
  static constexpr int kInTurn = WarpgroupEpilogue<Config>::kInTurn;
  static constexpr int kTakenN = kInTurn * Schedule::kTileN;
  static constexpr int kColumnTiles = ceilDiv(Config::kN, kTakenN);
  /// CTAs of a cluster, which share the k of a tile where there are too few
  /// tiles for all of them (split.cuh).
  static constexpr int kSplit = splitOf<Config>();
  static_assert(kSplit == 1 || (kTokensAreColumns && Config::kAwaited == 0 &&
                                kInTurn == 1 && kTiles >= 4),
                "a tile that is split is one of the first matmul, with swapped "
                "operands, all of its weight rows at a time");
  /// Token rows that the producers copy at a time, one chunk a thread.
  static constexpr int kRowsPerPass = kProducers / Layout::kChunks;
  static constexpr int kPasses = Schedule::kTileM / kRowsPerPass;
  /// Token rows of a box of their tensor map, if they have one: those that one
  /// consuming warpgroup multiplies where rows are tokens.
  static constexpr int kBoxRows = minimum(int(Schedule::kTileM), 64);
  /// The fewest tokens that an instruction multiplies: all where they are rows.
  /// A tile of many rows needs no narrow instruction; conversion of codes
  /// leaves no registers for one loop more.
  static constexpr int fewestTokens() {
    if (!kTokensAreColumns)
      return Schedule::kTileM;
    if (Schedule::kTileM > 160)
      return 64;
    bool needsFew = Schedule::kTileM <= 64 && !takesSlabs<Mma>;
    return minimum(int(Schedule::kTileM), needsFew ? 16 : 32);
  }
  static constexpr int kFewestTokens = fewestTokens();
  /// Token rows are copied so many at a time: rows that are multiplied beyond
  /// those are nobody's.
  static constexpr int kCopiedTokens =
      minimum(Schedule::kTileM, takesSlabs<Mma> ? 32 : 16);

  /// Whether one epilogue serves several widths of the instruction, so that a
  /// kernel compiles sooner. One warpgroup with all totals has no registers for
  /// that.
  static constexpr bool kOneEpilogue =
      kTokensAreColumns && !(Mma::kPromoted && kGroups == 1);

  static constexpr int kStaging = Schedule::kStages * kStageBytes;
  static constexpr int kSlots = kStaging + WarpgroupEpilogue<Config>::kBytes;
  /// Scales of the tokens and weights of each stage, where they change along k.
  static constexpr bool kStagesScales = ScaleLayout<Config>::kByGroup;
  /// Arrivals that give a stage back: of each warp, or of each thread where all
  /// read scales or codes, so that every reader is known to be done.
  static constexpr bool kAllRelease = kStagesScales || takesSlabs<Mma>;
  static constexpr int kReleases =
      sumsInTensorMemory<Mma> && !Mma::kPromoted
          ? kGroups
          : Schedule::kConsumerWarps * (kAllRelease ? 32 : 1);
  /// Whether this thread of a warpgroup does.
  static __device__ __forceinline__ bool releases(int thread) {
    return kAllRelease || thread % 32 == 0;
  }
  /// Two warpgroups that scale and add partial sums take turns, so that the
  /// one multiplies while the other adds: named barriers kTurn and kTurn + 1,
  /// behind those of the epilogue.
  static constexpr bool kTakeTurns =
      kStagesScales && kGroups == 2 && !sumsInTensorMemory<Mma>;
  static constexpr int kTurn = 5;
  /// Whether this matmul runs beside another: then a slot says more.
  static constexpr bool kBeside = Config::kCounts || Config::kAwaited > 0;
  /// The named barrier at which consumers meet before a tile is counted.
  static constexpr int kCounted = 7;
  /// The first of the named barriers of warpgroups in a main loop. An epilogue
  /// has others: another warpgroup may be in it.
  static constexpr int kInLoop = 8;
  static constexpr int kScales = kSlots + 2 * 16;
  /// Scales of whole tokens, where tokens are rows, come with the first stage
  /// of a tile: consumers do not wait for the places of gathered rows.
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
  /// Sums and the scales of the stages take columns of tensor memory, whose
  /// address lies in kSumsAddress. Sums also have barriers: one of each
  /// warpgroup at which the multiplies of a tile end, or one a stage where sums
  /// are promoted.
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
  // A consumer waits for registers until producers have given theirs.
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

/// Shared addresses of the barriers.
template <class Config>
struct Barriers : RingBarriers<Config::Schedule::kStages> {
  static constexpr int kStages = Config::Schedule::kStages;
  __device__ __forceinline__ unsigned slotFull(int slot) const {
    return this->base + unsigned(2 * kStages + slot) * 8;
  }
  __device__ __forceinline__ unsigned slotEmpty(int slot) const {
    return this->base + unsigned(2 * kStages + 2 + slot) * 8;
  }
  /// The barrier at which the multiplies of a warpgroup's tile end, or those of
  /// a stage (see Specialized::kEnds).
  __device__ __forceinline__ unsigned multiplied(int group, int stage) const {
    return this->base + unsigned(2 * kStages + 4 +
                                 group * Specialized<Config>::kEnds + stage) *
                            8;
  }
  /// By one thread, before all others pass a __syncthreads().
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
