//===- layout.cuh - shared memory of slices ---------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sizes and shared-memory layout of a CTA that keeps token rows in shared
// memory while weights stream through it (moe/matmul/slices/stationary.cuh).
// The shared memory contains, in this order: a ring of weight stages, the token
// rows and their scales, the list of segments (a segment is the rows of one
// expert), the pairs of the tokens whose results the CTA adds, one staging tile
// per consumer warpgroup, the stages' weight scales, and mbarriers.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx_async.cuh"
#include "moe/core/swizzle.cuh"
#include "moe/core/types.cuh"
#include "moe/matmul/epilogue/store_swapped.cuh"
#include "moe/matmul/feed/scales.cuh"
#include "moe/matmul/feed/weight_loader.cuh"

namespace moe {

/// A Config whose result is one slice (kTileN columns of the whole result).
template <class Config> struct SliceOf : Config {
  static constexpr int kN = Config::Schedule::kTileN;
};

/// The layout of shared memory for a Config.
template <class Config> struct Stationary {
  using Schedule = typename Config::Schedule;
  using Input = typename Config::Input;
  using Mma = typename Config::Mma;
  using Layout = Swizzle<Mma::kRowBytes>;
  using Staging = SwappedStaging<SliceOf<Config>>;
  static constexpr int kSlice = Schedule::kTileN;
  static constexpr int kSlices = Config::kN / kSlice;
  static constexpr int kRowBytes = Mma::kRowBytes;
  static constexpr int kStageBytes = WeightLoader<Config>::kBytes;
  static constexpr int kTiles = ceilDiv(Config::kK, Schedule::kTileK);
  /// Number of rows that a CTA keeps. Each expert's rows start at a multiple of
  /// 8.
  static constexpr int kRows = Config::kRows;
  static constexpr int kSegments = kRows / 8;
  static constexpr int kColumnGroups = kSlice / Mma::kRows;
  /// Number of threads that do not multiply. Warp 0 produces, warps 1 to 3
  /// synchronize CTAs, and warps from kSumWarp on combine
  /// (moe/matmul/slices/stationary.cuh).
  static constexpr int kOthers = 128 * Schedule::kOtherWarpgroups;
  static constexpr int kConsumers = Config::kThreads - kOthers;
  /// Number of warpgroups that compute the same 64 columns and divide the row
  /// tiles among them.
  static constexpr int kRowParts = kConsumers / 128 / kColumnGroups;
  static constexpr int kSumWarp = 4;
  static constexpr int kSumThreads = kOthers - 32 * kSumWarp;
  /// True if scales change along k. kGroups: number of groups along k that have
  /// scales.
  static constexpr bool kStagesScales = ScaleLayout<Config>::kByGroup;
  static constexpr int kGroups =
      kStagesScales ? ScaleLayout<Config>::kTokenGroups : 0;
  /// Number of tokens whose results a CTA adds.
  static constexpr int kTokens = Config::kTokens;
  /// Index in tile_count of the first counter. It follows the number of tiles
  /// and the two matmuls' cursors.
  static constexpr int kFirstCounter = 3;

  static constexpr int kLhs = Schedule::kStages * kStageBytes;
  static constexpr int kScales = kLhs + kTiles * kRows * kRowBytes;
  static constexpr int kSegmentList = kScales + kGroups * kRows * 4;
  /// The MMAs' token counts are multiples of 32, and a tile's rows are padded
  /// to a multiple of 8. Up to 24 row scales past the end of a tile are
  /// therefore read and ignored, so 24 floats must follow.
  static constexpr int kPairList =
      kSegmentList + maximum((kSegments + 1) * 16, 128);
  /// For the same reason an MMA reads up to 24 rows past the end of a tile.
  /// Memory up to 24 rows after the last row must therefore not be written
  /// concurrently.
  static constexpr int kStaging =
      maximum(kPairList + ceilDiv(kTokens * Config::kPairs, 2) * 16,
              kScales + 24 * kRowBytes);
  /// Offset of the weight scales, one f32 per pipeline stage.
  static constexpr int kStageScales =
      kStaging + kConsumers / 128 * Staging::kBytes;
  static constexpr int kBarriers =
      kStageScales + ceilDiv(Schedule::kStages, 4) * 16;
  /// The mbarriers are two per pipeline stage, and four per slice buffer
  /// (StationaryExchange::local in moe/matmul/slices/exchange.cuh).
  static constexpr int kBytes =
      kBarriers + (2 * Schedule::kStages + 4 * Schedule::kBuffers) * 8;

  static_assert(kSlice == 64 || kSlice == 128,
                "slices must have 64 or 128 columns");
  static_assert(Config::kN % kSlice == 0, "kN must be a multiple of kTileN");
  static_assert(kRows % 8 == 0, "kRows must be a multiple of 8");
  static_assert(Schedule::kStages >= kTiles,
                "the ring must hold an expert's weights for one slice");
  static_assert(kConsumers % 128 == 0 && kRowParts >= 1 &&
                    kRowParts * kColumnGroups * 128 == kConsumers,
                "the consumer warpgroups must share a slice evenly");
  static_assert(Schedule::kTileM % 32 == 0, "kTileM must be a multiple of 32");
  // With fewer registers, consumers would wait in setmaxnreg forever.
  static_assert(kOthers * Schedule::kProducerRegisters +
                        kConsumers * Schedule::kConsumerRegisters <=
                    ptx::registersOfCta(Config::kThreads, Schedule::kCtasPerSm),
                "more registers than the launch allots");
  static_assert(kBytes <= 232448, "more shared memory than a CTA can have");
};

} // namespace moe
