//===- produce_consume_layout.cuh - shared memory layout --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The shared-memory layout of moe/matmul/roles/produce_consume.cuh, the
// mbarriers and named barriers that guard its buffers, and assertions about
// supported Configs. The layout is, in this order: the ring of pipeline stages,
// the epilogue's staging tiles, two slots for tiles, the scales of the pipeline
// stages, mbarriers, and the address of the accumulators in tensor memory.
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

/// True if rows of lhs are copied by TMA. The argument lhs is then a tensor
/// map.
template <class Config>
inline constexpr bool mapsRows = kSame<decltype(Config::Args::lhs), TensorMap>;

/// The shared-memory layout of a Config. Offsets and sizes are in bytes.
template <class Config> struct Specialized {
  using Schedule = typename Config::Schedule;
  using Input = typename Config::Input;
  using Mma = typename Config::Mma;
  static constexpr int kRowBytes = Mma::kRowBytes;
  using Layout = Swizzle<kRowBytes>;
  static constexpr int kWeightBytes = WeightLoader<Config>::kBytes;
  static constexpr int kStageBytes =
      kWeightBytes + Schedule::kTileM * kRowBytes;
  /// Rows and columns of a tile as in the MMA instruction. Rows are weight rows
  /// or tokens, and are divided among kGroups consumer warpgroups.
  static constexpr bool kTokensAreColumns = Mma::kTokensAreColumns;
  static constexpr int kRows =
      kTokensAreColumns ? Schedule::kTileN : Schedule::kTileM;
  static constexpr int kColumns =
      kTokensAreColumns ? Schedule::kTileM : Schedule::kTileN;
  static constexpr int kGroups = kRows / Mma::kRows;
  /// Byte offsets of the row and column operands in a pipeline stage, in which
  /// weights precede tokens; then the byte stride of the row operand's rows.
  static constexpr int kRowsOffset = kTokensAreColumns ? 0 : kWeightBytes;
  static constexpr int kColumnsOffset = kTokensAreColumns ? kWeightBytes : 0;
  static constexpr int kRowPitch =
      kTokensAreColumns ? WeightLoader<Config>::kRowBytes : kRowBytes;
  static constexpr int kProducers = 32 * Schedule::kProducerWarps;
  /// Number of arrivals at a pipeline stage's mbarrier `full`.
  static constexpr int kArrivals =
      kProducers * (ScaleAtomLoader<Config>::kIsWhole ? 1 : 2) + 1;
  static constexpr int kTiles = ceilDiv(Config::kK, Schedule::kTileK);
  static constexpr bool kTailK = Config::kK % Schedule::kTileK != 0;
  /// Number of column tiles, of kTileN weight rows each, that a CTA computes
  /// for each tile that it is assigned.
  static constexpr int kInTurn = WarpgroupEpilogue<Config>::kInTurn;
  static constexpr int kTakenN = kInTurn * Schedule::kTileN;
  static constexpr int kColumnTiles = ceilDiv(Config::kN, kTakenN);
  /// Number of CTAs in a cluster that split the k of a tile if there are too
  /// few tiles for all CTAs (moe/matmul/roles/split.cuh).
  static constexpr int kSplit = splitOf<Config>();
  static_assert(kSplit == 1 || (kTokensAreColumns && Config::kAwaited == 0 &&
                                kInTurn == 1 && kTiles >= 4),
                "split-K needs swapped operands, kAwaited 0, one column tile "
                "at a time and at least 4 k tiles");
  /// Token rows that the producers copy in one pass, one 16-byte chunk per
  /// thread.
  static constexpr int kRowsPerPass = kProducers / Layout::kChunks;
  static constexpr int kPasses = Schedule::kTileM / kRowsPerPass;
  /// Token rows per box, if lhs is a tensor map.
  static constexpr int kBoxRows = minimum(int(Schedule::kTileM), 64);
  /// Returns the smallest token count for which a mainloop is compiled
  /// (withTokens in moe/matmul/roles/ring.cuh); kTileM if tokens are rows.
  /// Large tiles need no narrow MMA instruction. With codes, whose conversion
  /// needs many registers, one mainloop fewer is compiled.
  static constexpr int fewestTokens() {
    if (!kTokensAreColumns)
      return Schedule::kTileM;
    if (Schedule::kTileM > 160)
      return 64;
    bool needsFew = Schedule::kTileM <= 64 && !takesSlabs<Mma>;
    return minimum(int(Schedule::kTileM), needsFew ? 16 : 32);
  }
  static constexpr int kFewestTokens = fewestTokens();
  /// Granularity, in token rows, of the copies. Rows beyond the copied rows are
  /// multiplied too, but their results are not stored.
  static constexpr int kCopiedTokens =
      minimum(Schedule::kTileM, takesSlabs<Mma> ? 32 : 16);

  /// True if the mainloops for all token counts share one epilogue, which makes
  /// a kernel compile faster. A single warpgroup that promotes accumulators
  /// has f32 totals besides them, and no registers for this.
  static constexpr bool kOneEpilogue =
      kTokensAreColumns && !(Mma::kPromoted && kGroups == 1);

  static constexpr int kStaging = Schedule::kStages * kStageBytes;
  static constexpr int kSlots = kStaging + WarpgroupEpilogue<Config>::kBytes;
  /// True if scales change along k, and the MMAs do not apply them. Each
  /// pipeline stage then has scales of tokens and weights.
  static constexpr bool kStagesScales =
      ScaleLayout<Config>::kByGroup && !scalesBlocks<Mma>;
  /// True if every thread arrives to release a pipeline stage, instead of one
  /// thread per warp. This is necessary if all threads read scales or codes
  /// from the stage. kReleases is the number of these arrivals.
  static constexpr bool kAllRelease = kStagesScales || takesSlabs<Mma>;
  static constexpr int kReleases =
      sumsInTensorMemory<Mma> && !Mma::kPromoted
          ? kGroups
          : Schedule::kConsumerWarps * (kAllRelease ? 32 : 1);
  /// Returns true if this thread of a warpgroup arrives to release pipeline
  /// stages.
  static __device__ __forceinline__ bool releases(int thread) {
    return kAllRelease || thread % 32 == 0;
  }
  /// True if two warpgroups that promote accumulators take turns: one warpgroup
  /// issues MMAs while the other warpgroup scales and adds. The warpgroups
  /// use the named barriers kTurn and kTurn + 1. These follow the epilogue's
  /// named barriers.
  static constexpr bool kTakeTurns = kStagesScales && kGroups == 2 &&
                                     !sumsInTensorMemory<Mma> &&
                                     !takesSlabs<Mma>;
  static constexpr int kTurn = 5;
  /// True if this matmul runs concurrently with the layer's other matmul. A
  /// slot then has more fields.
  static constexpr bool kBeside = Config::kCounts || Config::kAwaited > 0;
  /// The named barrier at which consumers synchronize before a tile is counted.
  static constexpr int kCounted = 7;
  /// The first of the named barriers that warpgroups use in the mainloop. They
  /// differ from the epilogue's barriers, because another warpgroup may be in
  /// the epilogue at the same time.
  static constexpr int kInLoop = 8;
  static constexpr int kScales = kSlots + 2 * 16;
  /// True if per-token scales are copied with a tile's first pipeline stage.
  /// This is so if tokens are rows. Consumers then need not load the indices of
  /// gathered rows.
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
  /// kSumColumns: columns of tensor memory that the CTA allocates, for the
  /// accumulators and for the scales of all pipeline stages. Their address is
  /// stored at kSumsAddress. At kMultiplied are the mbarriers on which MMAs
  /// complete: kEnds per warpgroup, which is one for the tile, or one per
  /// pipeline stage if accumulators are promoted.
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
                "kTileN must be 64 or 128 weight rows per warpgroup");
  static_assert(kTokensAreColumns ||
                    (Schedule::kTileM % Mma::kRows == 0 &&
                     (!quantizesResult<Config> || quantizesGroups<Config>)),
                "if rows are tokens, kTileM must be 64 or 128 tokens per "
                "warpgroup, and the result can be quantized only by group");
  static_assert(
      Schedule::kProducerWarps == 4 && Schedule::kConsumerWarps == 4 * kGroups,
      "there must be one producer warpgroup and kGroups consumer warpgroups");
  static_assert(Schedule::kStages >= 2, "the ring needs two stages or more");
  static_assert(!Mma::kPromoted || takesSlabs<Mma> ||
                    Config::Quant::kPromoteK == Schedule::kTileK,
                "kPromoteK must equal kTileK");
  static_assert(kColumns * Mma::kRows <=
                    (takesSlabs<Mma> && !Mma::kPromoted ? 160 : 128) * 128,
                "a thread has registers for 128 accumulators, or 160 if "
                "weights are slabs and accumulators are not promoted");
  static_assert(!sumsInTensorMemory<Mma> ||
                    (kSumColumns * Schedule::kCtasPerSm <= 512 && kSplit == 1),
                "the CTAs of an SM share 512 columns of tensor memory");
  static_assert(
      !scalesBlocks<Mma> || kGroups == 1,
      "the tensor-memory columns of a stage's scales belong to one warpgroup");
  static_assert(Mma::kPromoted || !kStagesScales,
                "scales per group along k need promoted accumulators");
  static_assert(
      !(kTokensAreColumns && quantizesGroups<Config>) ||
          ScaleLayout<Config>::kLhs != quant::LhsScale::Token,
      "per-token scales would overwrite the staged group of the result");
  // Consumers wait for registers until the producers have released theirs, so
  // the total must not exceed the launch's allocation.
  static_assert(kProducers * Schedule::kProducerRegisters +
                        32 * Schedule::kConsumerWarps *
                            Schedule::kConsumerRegisters <=
                    ptx::registersOfCta(Config::kThreads, Schedule::kCtasPerSm),
                "more registers than the launch allots");
  static_assert(Schedule::kProducerRegisters % 8 == 0 &&
                    Schedule::kConsumerRegisters % 8 == 0,
                "register counts must be multiples of 8");
  static_assert(Config::kK % kPerVector<Input> == 0,
                "rows must be whole 16-byte chunks");
  static_assert(!mapsRows<Config> ||
                    (!Config::kGather && Schedule::kTileM % kBoxRows == 0),
                "a tensor map copies contiguous rows only, and a tile must be "
                "whole boxes");
  static_assert(Config::kCursor == 1 || Config::kCursor == 2,
                "kCursor must be 1 or 2");
  static_assert(Config::kAwaited == 0 ||
                    (Config::kTilesEarly && !Config::kGather),
                "kAwaited needs kTilesEarly and rows that are not gathered");
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
  /// Returns the mbarrier on which a warpgroup's MMAs for a tile, or for
  /// pipeline stage `stage`, complete (see Specialized::kEnds).
  __device__ __forceinline__ unsigned multiplied(int group, int stage) const {
    return this->base + unsigned(2 * kStages + 4 +
                                 group * Specialized<Config>::kEnds + stage) *
                            8;
  }
  /// Initializes the mbarriers. One thread calls it before the __syncthreads()
  /// that precedes their use.
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
