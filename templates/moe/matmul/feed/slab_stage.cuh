//===- slab_stage.cuh - layout of slabs in a stage --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sizes and offsets, in a pipeline stage, of blocks of slabs (codes in MMA
// fragment order, moe/math/slabs.cuh) and of their scales and zero points.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/types.cuh"
#include "moe/math/codes.cuh"
#include "moe/math/slabs.cuh"
#include "moe/matmul/feed/scales.cuh"

namespace moe {

/// Sizes of a Config's codes and scale groups along k.
template <class Config> struct SlabNumbers {
  using Weight = typename Config::Weight;
  using Scale = typename Config::Scale;
  using Codes = Slabs<kBits<Weight>, 8 * int(sizeof(typename Config::Input))>;
  /// kGroupK: elements along k that share a scale. kGroups: groups of a weight
  /// row. kBlockGroups: groups of a weight row in one block.
  static constexpr int kGroupK = Config::kScaleColumns == kWholeExtent
                                     ? Config::kK
                                     : Config::kScaleColumns;
  static constexpr int kGroups = ceilDiv(Config::kK, kGroupK);
  static constexpr int kBlockGroups =
      kGroupK < Codes::kColumns ? Codes::kColumns / kGroupK : 1;
  static_assert(Config::kScaleRows == 1,
                "each weight row must have its own scales");
  static_assert(Config::kN % Codes::kRows == 0 &&
                    Config::kK % Codes::kColumns == 0,
                "kN and kK must be whole slab blocks");
  static_assert(kGroupK % 16 == 0 && (kGroupK % Codes::kColumns == 0 ||
                                      Codes::kColumns % kGroupK == 0),
                "a group along k must be 16, 32 or whole slab blocks");

  /// Returns the index of the group that contains the first column of block k.
  static __device__ __forceinline__ int firstGroup(int k) {
    if constexpr (Config::kScaleColumns == kWholeExtent)
      return 0;
    else
      return k * Codes::kColumns / kGroupK;
  }
};

/// The least number of tokens of a tile whose scales are folded. A tile with
/// fewer has few accumulators to add. Scales per token and stage make adding
/// twice as expensive.
template <class Config>
constexpr int kLeastFolded = ScaleLayout<Config>::kByGroup ? 16 : 128;

/// True if weights have a power of two as the scale of each step of k, and
/// these become factors of the elements (SlabSums::FoldedScales).
template <class Config>
constexpr bool foldsScales = kSame<typename Config::Weight, e2m1> &&
                             kSame<typename Config::Scale, ue8m0> &&
                             SlabNumbers<Config>::kBlockGroups == 4 &&
                             Config::Schedule::kTileM >= kLeastFolded<Config>;

/// Offsets of codes, scales and zero points in a pipeline stage.
template <class Config> struct SlabStage : SlabNumbers<Config> {
  using typename SlabNumbers<Config>::Codes;
  using typename SlabNumbers<Config>::Scale;
  using SlabNumbers<Config>::kGroupK;
  static constexpr int kTileK = Config::Schedule::kTileK;
  /// Number of blocks in a stage, along the weight rows and along k. The blocks
  /// of the same rows are contiguous.
  static constexpr int kBlocks = Config::Schedule::kTileN / Codes::kRows;
  static constexpr int kBlocksOfK = kTileK / Codes::kColumns;
  static_assert(Config::Schedule::kTileN % Codes::kRows == 0 &&
                    kTileK % Codes::kColumns == 0,
                "a stage must be whole slab blocks");
  /// Number of groups of a weight row in a stage.
  static constexpr int kStageGroups =
      Config::kScaleColumns != kWholeExtent && kGroupK < kTileK
          ? kTileK / kGroupK
          : 1;
  static_assert(Config::kScaleColumns == kWholeExtent ||
                    kGroupK % kTileK == 0 || kTileK % kGroupK == 0,
                "a stage must be whole groups, or a group whole stages");

  /// Bytes of codes, scales and zero points for 64 weight rows; then the byte
  /// offsets of the first scales and zero points in a stage.
  static constexpr int kCodeBytes = kBlocksOfK * Codes::kBlockBytes;
  static constexpr int kScaleBytes = kStageGroups * 64 * int(sizeof(Scale));
  static constexpr int kZeroBytes = Config::kZeroPoint ? kStageGroups * 64 : 0;
  static constexpr int kScales = kBlocks * kCodeBytes;
  static constexpr int kZeros = kScales + kBlocks * kScaleBytes;
  static constexpr int kUsedBytes = kZeros + kBlocks * kZeroBytes;
  /// Rounded up so that the token tile that follows starts at a multiple of
  /// 1024 bytes.
  static constexpr int kBytes = ceilDiv(kUsedBytes, 1024) * 1024;

  /// Returns the index of the group that contains the first column of block
  /// `blockOfK` of the stage, relative to the stage's first group.
  static constexpr int groupOf(int blockOfK) {
    return blockOfK * kStageGroups / kBlocksOfK;
  }
};

} // namespace moe
