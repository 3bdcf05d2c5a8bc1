//===- specialized.cuh - shared memory of producers, consumers --*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The shared memory of warp_specialized.cuh: what lies in which place, whose
// turn a place is, and which choices of a Config it can be instantiated with.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx_async.cuh"
#include "moe/core/swizzle.cuh"
#include "moe/core/types.cuh"
#include "moe/epilogue/quantize_groups.cuh"
#include "moe/epilogue/store_rows.cuh"
#include "moe/epilogue/store_swapped.cuh"
#include "moe/quant/scales.cuh"
#include "moe/skeleton/split.cuh"

namespace moe {

/// A tile as it is handed around; no rows: there are no more tiles.
struct SlotTile {
  int expert, firstRow, rows, firstN;
  int index;    ///< of the row tile in the list
  bool isThere; ///< the predecessor is known to have written its rows
  bool isSplit; ///< the CTAs of a cluster share its k
  static constexpr int kExpertBits = 10, kRowBits = 16;

  /// As the words of a slot say. isBeside: this matmul runs beside another, so
  /// that the words say more. maySplit: of clusters that may share a tile.
  template <bool isBeside, bool maySplit>
  static __device__ __forceinline__ SlotTile of(const unsigned (&words)[4]) {
    bool isSplit = maySplit && words[3] > kSplitBit - 1;
    int firstN = int(maySplit ? words[3] & (kSplitBit - 1) : words[3]);
    if constexpr (!isBeside)
      return {int(words[0]), int(words[1]), int(words[2]), firstN, 0,
              false,         isSplit};
    constexpr unsigned kExperts = (1u << kExpertBits) - 1;
    constexpr unsigned kRows = (1u << kRowBits) - 1;
    return {int(words[0] & kExperts),
            int(words[1]),
            int(words[2] & kRows),
            firstN,
            int(words[0] >> kExpertBits),
            words[2] > kRows,
            isSplit};
  }
  static constexpr unsigned kSplitBit = 1u << 31; ///< of the fourth word

  /// Sets the words that of() reads. listed: row tile `index` of the list.
  template <bool isBeside>
  static __device__ __forceinline__ void put(unsigned (&words)[4], int4 listed,
                                             int index, int firstN,
                                             bool isThere, bool isSplit) {
    words[0] = unsigned(listed.x);
    if constexpr (isBeside)
      words[0] |= unsigned(index) << kExpertBits;
    words[1] = unsigned(listed.y);
    words[2] = unsigned(listed.z - listed.y);
    if (isThere)
      words[2] |= 1u << kRowBits;
    words[3] = unsigned(firstN) | (isSplit ? kSplitBit : 0u);
  }
};

/// The layout of shared memory for a Config.
template <class Config> struct Specialized {
  using Schedule = typename Config::Schedule;
  using Input = typename Config::Input;
  using Mma = typename Config::Mma;
  static constexpr int kRowBytes = Mma::kRowBytes;
  using Layout = Swizzle<kRowBytes>;
  static constexpr int kWeightBytes = Schedule::kTileN * kRowBytes;
  static constexpr int kStageBytes =
      (Schedule::kTileN + Schedule::kTileM) * kRowBytes;
  /// Consuming warpgroups. Each has rows of the weights, or of the tokens.
  static constexpr int kGroups =
      (Mma::kSwapped ? Schedule::kTileN : Schedule::kTileM) / Mma::kRows;
  static constexpr int kProducers = 32 * Schedule::kProducerWarps;
  static constexpr int kTiles = ceilDiv(Config::kK, Schedule::kTileK);
  static constexpr bool kTailK = Config::kK % Schedule::kTileK != 0;
  /// Weight tiles of kTileN rows that a CTA takes at a time.
  static constexpr int kInTurn = [] {
    if constexpr (quantizesGroups<Config>)
      return GroupStaging<Config>::kTiles;
    else
      return 1;
  }();
  static constexpr int kTakenN = kInTurn * Schedule::kTileN;
  static constexpr int kColumnTiles = ceilDiv(Config::kN, kTakenN);
  /// CTAs of a cluster, which share the k of a tile where there are too few
  /// tiles for all of them (split.cuh).
  static constexpr int kSplit = splitOf<Config>();
  static_assert(kSplit == 1 ||
                    (Config::kAwaited == 0 && kInTurn == 1 && kTiles >= 4),
                "a tile that is split is one of the first matmul, all of its "
                "weight rows at a time");
  /// Token rows that the producers copy at a time, one chunk a thread.
  static constexpr int kRowsPerPass = kProducers / Layout::kChunks;
  static constexpr int kPasses = Schedule::kTileM / kRowsPerPass;

  static constexpr int kStaging = Schedule::kStages * kStageBytes;
  static constexpr int kSlots = kStaging + [] {
    if constexpr (quantizesGroups<Config>)
      return GroupStaging<Config>::kBytes;
    else if constexpr (Mma::kSwapped)
      return kGroups * SwappedStaging<Config>::kBytes;
    else
      return RowStaging<Config>::kBytes;
  }();
  /// Scales of the tokens of each stage, where they change along k.
  static constexpr bool kStagesScales = ScaleLayout<Config>::kByGroup;
  /// Arrivals that give a stage back: of each warp, or of each thread where all
  /// read scales, so that every reader is known to be done.
  static constexpr int kReleases =
      Schedule::kConsumerWarps * (kStagesScales ? 32 : 1);
  /// Two warpgroups that scale and add partial sums take turns, so that the
  /// one multiplies while the other adds: named barriers kTurn and kTurn + 1,
  /// behind those of the epilogue.
  static constexpr bool kTakeTurns =
      kStagesScales && kGroups == 2 && Mma::kSwapped;
  static constexpr int kTurn = 5;
  /// Whether this matmul runs beside another: then a slot says more.
  static constexpr bool kBeside = Config::kCounts || Config::kAwaited > 0;
  /// The named barrier at which consumers meet before a tile is counted.
  static constexpr int kCounted = 7;
  static constexpr int kScales = kSlots + 2 * 16;
  static constexpr int kScaleBytes = kStagesScales ? Schedule::kTileM * 4 : 0;
  static constexpr int kScaleRows = ceilDiv(Schedule::kTileM, kProducers);
  static constexpr int kBarriers = kScales + Schedule::kStages * kScaleBytes;
  static constexpr int kBytes = kBarriers + (2 * Schedule::kStages + 4) * 8;

  static_assert(Schedule::kTileK * int(sizeof(Input)) == kRowBytes,
                "kTileK must be 128 bytes of the operands");
  static_assert(Schedule::kTileM % kRowsPerPass == 0 &&
                    Schedule::kTileM % 16 == 0 && Schedule::kTileM <= 256,
                "kTileM must be a multiple of 16, at most 256");
  static_assert(!Mma::kSwapped || (Schedule::kTileN % Mma::kRows == 0 &&
                                   Schedule::kTileN <= 256),
                "kTileN must be 64 or 128 rows for each warpgroup");
  static_assert(Mma::kSwapped || (Schedule::kTileM % Mma::kRows == 0 &&
                                  !quantizesResult<Config>),
                "kTileM must be 64 or 128 tokens for each warpgroup, and the "
                "result is not quantized, where rows are tokens");
  static_assert(Schedule::kProducerWarps == 4 &&
                    Schedule::kConsumerWarps == 4 * kGroups,
                "one warpgroup produces, others consume");
  static_assert(Schedule::kStages >= 2, "the ring needs two stages or more");
  static_assert(!Mma::kPromoted || Config::Quant::kPromoteK == Schedule::kTileK,
                "promoted sums are of one stage");
  static_assert((Mma::kSwapped ? Schedule::kTileM : Schedule::kTileN) *
                        Mma::kRows <=
                    128 * 128,
                "a thread has room for 128 sums");
  static_assert(Mma::kPromoted || !kStagesScales,
                "scales of groups along k multiply promoted sums");
  // A consumer waits for registers until producers have given theirs.
  static_assert(kProducers * Schedule::kProducerRegisters +
                        32 * Schedule::kConsumerWarps *
                            Schedule::kConsumerRegisters <=
                    ptx::registersOfCta(Config::kThreads, Schedule::kCtasPerSm),
                "more registers than the launch allots");
  static_assert(Schedule::kProducerRegisters % 8 == 0 &&
                    Schedule::kConsumerRegisters % 8 == 0,
                "registers come in eights");
  static_assert(Schedule::kPersistent, "this skeleton's CTAs are persistent");
  static_assert(Config::kK % kPerVector<Input> == 0,
                "rows must be whole 16-byte chunks");
  static_assert(Config::kCursor == 1 || Config::kCursor == 2,
                "kCursor must be 1 or 2");
  static_assert(Config::kExperts <= 1 << SlotTile::kExpertBits,
                "an expert's number must fit its slot");
  static_assert(Config::kAwaited == 0 ||
                    (Config::kTilesEarly && !Config::kGather),
                "the second of two matmuls alone runs beside the first");
};

/// A place in the ring, and the parity of its next phase; beside that, since
/// registers are few, the number of tiles that were taken.
template <int kStages> struct RingIndex {
  int stage = 0;
  unsigned state = 0;
  __device__ __forceinline__ unsigned phase() const { return state & 1; }
  __device__ __forceinline__ unsigned tiles() const { return state >> 1; }
  __device__ __forceinline__ void countTile() { state += 2; }
  __device__ __forceinline__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      state ^= 1;
    }
  }
};

/// Shared addresses of the barriers.
template <class Config> struct Barriers {
  static constexpr int kStages = Config::Schedule::kStages;
  unsigned base;
  __device__ __forceinline__ unsigned full(int stage) const {
    return base + unsigned(stage) * 8;
  }
  __device__ __forceinline__ unsigned empty(int stage) const {
    return base + unsigned(kStages + stage) * 8;
  }
  __device__ __forceinline__ unsigned slotFull(int slot) const {
    return base + unsigned(2 * kStages + slot) * 8;
  }
  __device__ __forceinline__ unsigned slotEmpty(int slot) const {
    return base + unsigned(2 * kStages + 2 + slot) * 8;
  }
  /// By one thread, before all others pass a __syncthreads().
  __device__ __forceinline__ void initialize() const {
    using S = Specialized<Config>;
#pragma unroll 1
    for (int stage = 0; stage < kStages; ++stage) {
      ptx::initializeBarrier(full(stage), S::kProducers + 1);
      ptx::initializeBarrier(empty(stage), S::kReleases);
    }
#pragma unroll
    for (int slot = 0; slot < 2; ++slot) {
      ptx::initializeBarrier(slotFull(slot), 1);
      ptx::initializeBarrier(slotEmpty(slot), Config::kThreads / 32);
    }
    ptx::publishBarriers();
  }
};

/// How many tokens the instruction multiplies for a tile of `rows`: a few
/// sizes, so that a tile costs little more than its rows and a kernel compiles
/// in about a second. Calls body.template run<kTokens>().
template <int kTileM, int kTokens = 32, class Body>
__device__ __forceinline__ void withTokens(int rows, Body &body) {
  constexpr int kStep = kTokens == 64 && kTileM > 128 ? 64
                        : kTokens < 192               ? 32
                                                      : 64;
  if constexpr (kTokens >= kTileM)
    body.template run<kTileM>();
  else if (rows <= kTokens)
    body.template run<kTokens>();
  else
    withTokens<kTileM, kTokens + kStep>(rows, body);
}

} // namespace moe
