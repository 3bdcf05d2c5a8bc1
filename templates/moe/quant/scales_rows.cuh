//===- scales_rows.cuh - scales where rows are tokens -----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The scales of a warpgroup's Fragment whose rows are tokens and whose columns
// are weight rows, for groups of 128 along k. A thread has two tokens, 8 apart,
// of each 64, and the weight rows of a tile share one scale, or one of gates
// and one of ups: two products or four serve all sums of 64 tokens.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx.cuh"
#include "moe/core/types.cuh"
#include "moe/quant/scales.cuh"
#include "moe/quant/scales_swapped.cuh"
#include "moe/quant/slab_codes.cuh"
#include "moe/quant/slab_sums.cuh"

namespace moe {

template <class Config, class Fragment> struct RowScales {
  using Layout = ScaleLayout<Config>;
  static_assert(Layout::kByGroup && Config::Schedule::kTileN == 128,
                "weight rows of a tile lie in one block of 128, or one of "
                "gates and one of ups");
  static constexpr int kParts = Layout::kParts;
  static constexpr int kProducers = 32 * Config::Schedule::kProducerWarps;
  WeightScales<Config> weights;
  float rhsScale[kParts];

  __device__
      __forceinline__ explicit RowScales(const WeightScales<Config> &weights)
      : weights(weights) {}

  /// Begins to read the weights' scales of a group of 128 along k.
  __device__ __forceinline__ void fetchWeights(int group) {
    weights.fetch(group);
  }
  /// The scales that were asked for are now those of the weights.
  __device__ __forceinline__ void nextWeights(int) {
#pragma unroll
    for (int part = 0; part < kParts; ++part)
      rhsScale[part] = weights.next[part];
  }

  /// All sums of a piece take their scales at a time.
  static constexpr int kChunk = Fragment::kPieceSize;
  static constexpr int kChunks = 1;
  static constexpr int kAhead = 1, kReleased = 0;
  struct OfTokens {
    float scales[2];
  };
  /// The begin of this thread's scales of a piece. shared: those of the tile.
  static __device__ __forceinline__ unsigned
  ofThread(unsigned shared, int piece, const Fragment &fragment) {
    int row = fragment.firstRow;
    // The index is computed anew if registers are few.
    if constexpr (Config::Mma::kRows > 64)
      row = Fragment::rowOfThread(ptx::threadIndex() - kProducers);
    return shared + unsigned(row + piece * 64) * 4;
  }
  /// from: see ofThread.
  __device__ __forceinline__ void fetchTokens(unsigned from, int,
                                              OfTokens &to) const {
#pragma unroll
    for (int slot = 0; slot < 2; ++slot)
      to.scales[slot] =
          __uint_as_float(ptx::loadShared(from + unsigned(slot * 8 * 4)));
  }
  /// The factor of partial sum i.
  __device__ __forceinline__ float ofGroup(const OfTokens &of, int i) const {
    int part = kParts == 2 && !Fragment::isGate(i) ? 1 : 0;
    return of.scales[i % 4 / 2] * rhsScale[part];
  }

  /// No scale is of a whole row or column.
  template <class Args, class Source>
  __device__ __forceinline__ void fetchOwn(const Args &, int, int, Source) {}
  __device__ __forceinline__ void finish(Fragment &, unsigned, int, int) {}
};

/// The scales of a Fragment's sums. weights: of which the first group is asked
/// for.
template <class Fragment, class Config>
__device__ __forceinline__ auto scalesOf(const WeightScales<Config> &weights) {
  if constexpr (takesSlabs<typename Config::Mma> && Config::Mma::kPromoted)
    return SlabSums<Config, Fragment>(weights.ofRows);
  else if constexpr (takesSlabs<typename Config::Mma>)
    return SlabScaling<Config, WeightScales<Config>::kCount / 2>(
        weights.ofRows);
  else if constexpr (!ScaleLayout<Config>::kScaled)
    return NoScales();
  else if constexpr (Fragment::kSwapped)
    return SwappedScales<Config, Fragment>(weights);
  else
    return RowScales<Config, Fragment>(weights);
}

} // namespace moe
