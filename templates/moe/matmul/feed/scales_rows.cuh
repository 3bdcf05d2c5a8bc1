//===- scales_rows.cuh - scales if rows are tokens --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The scales of a warpgroup's Fragment whose rows are tokens and whose columns
// are weight rows. A thread has two tokens, 8 apart, of each 64.
//
// Groups of 128 along k: 128 weight rows share a scale, or 128 gates and their
// ups share two. Two or four products serve all partial accumulators of 64
// tokens.
//
// Whole rows and columns: tokens' scales are copied with the first stage. Each
// lane of a warp loads the scales of every 32nd weight row before the MMAs;
// shuffles distribute them at the end.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx.cuh"
#include "moe/core/ptx_async.cuh"
#include "moe/core/types.cuh"
#include "moe/matmul/feed/scales.cuh"
#include "moe/matmul/feed/scales_swapped.cuh"
#include "moe/quant/slab_codes.cuh"
#include "moe/quant/slab_sums.cuh"

namespace moe {

template <class Config, class Fragment> struct RowScales {
  using Layout = ScaleLayout<Config>;
  using Weights = WeightScales<Config>;
  static constexpr int kTileN = Config::Schedule::kTileN;
  static_assert(kTileN == 128 || kTileN == 256,
                "a tile's weight rows are one block of 128 or two, or blocks "
                "of gates and ups");
  static constexpr int kParts = Layout::kParts;
  static constexpr int kProducers = 32 * Config::Schedule::kProducerWarps;
  static constexpr int kAtoms = Config::Mma::kRows / 64;
  Weights weights;
  /// Scales of the weights for a group along k: see StageScales.
  float rhsScale[2];
  /// Scales of this thread's whole tokens.
  float own[Layout::kByGroup ? 1 : 2 * kAtoms];

  __device__ __forceinline__ explicit RowScales(const Weights &weights)
      : weights(weights) {}

  /// Loads the weights' scales of a stage. `from`: their shared-memory address.
  __device__ __forceinline__ void fetchWeights(unsigned from) {
    if constexpr (Layout::kByGroup) {
      if constexpr (StageScales<Config>::kCount == 2) {
        float2 both = ptx::loadSharedPair(from);
        rhsScale[0] = both.x;
        rhsScale[1] = both.y;
      } else {
        rhsScale[0] = __uint_as_float(ptx::loadShared(from));
      }
    }
  }

  /// All accumulators of a piece are scaled as one chunk.
  static constexpr int kChunk = Fragment::kPieceSize;
  static constexpr int kChunks = 1;
  static constexpr int kAhead = Layout::kByGroup ? 1 : 0;
  static constexpr int kReleased = Layout::kByGroup ? 0 : -1;
  struct OfTokens {
    float scales[2];
  };
  /// Returns this thread's first row of the tile. It is recomputed from the
  /// thread's index if registers are scarce.
  static __device__ __forceinline__ int firstRow() {
    return Fragment::rowOfThread(ptx::threadIndex() - kProducers);
  }
  /// Returns the address of this thread's scales of a piece. `shared`: address
  /// of the scales of the tile's tokens.
  static __device__ __forceinline__ unsigned
  ofThread(unsigned shared, int piece, const Fragment &fragment) {
    bool few = Config::Mma::kRows > 64 || kTileN > 128;
    int row = few ? firstRow() : fragment.firstRow;
    return shared + unsigned(row + piece / Fragment::kPiecesOfAtom * 64) * 4;
  }
  /// Loads the scales of two tokens. `from`: see ofThread.
  __device__ __forceinline__ void fetchTokens(unsigned from, int,
                                              OfTokens &to) const {
    if constexpr (Layout::kByGroup)
#pragma unroll
      for (int slot = 0; slot < 2; ++slot)
        to.scales[slot] =
            __uint_as_float(ptx::loadShared(from + unsigned(slot * 8 * 4)));
  }
  /// Returns the factor of partial accumulator i of a piece.
  __device__ __forceinline__ float ofGroup(const OfTokens &of, int piece,
                                           int i) const {
    if constexpr (!Layout::kByGroup)
      return 1.0f;
    int part = kParts == 2 ? !Fragment::isGate(i)
                           : piece % Fragment::kPiecesOfAtom *
                                 Fragment::kPieceColumns / 128;
    return of.scales[i % 4 / 2] * rhsScale[part];
  }

  template <class Args, class Source>
  __device__ __forceinline__ void fetchOwn(const Args &, int, int, Source) {}

  /// Loads the scales of whole tokens, which are copied with the first stage of
  /// a tile. `from`: their shared-memory address.
  __device__ __forceinline__ void readFirst(unsigned from)
    requires(!ScaleLayout<Config>::kByGroup)
  {
#pragma unroll
    for (int slot = 0; slot < 2 * kAtoms; ++slot) {
      int row = firstRow() + slot / 2 * 64 + slot % 2 * 8;
      own[slot] = __uint_as_float(ptx::loadShared(from + unsigned(row) * 4));
    }
  }

  /// Multiplies the final accumulators if scales are of whole rows and columns.
  /// Called by whole warps.
  __device__ __forceinline__ void finish(Fragment &fragment, unsigned, int,
                                         int) {
    if constexpr (!Layout::kByGroup) {
      int quad = ptx::threadIndex() % 4;
#pragma unroll
      for (int column = 0; column < Fragment::kAtomSize; column += 4)
#pragma unroll
        for (int next = 0; next < 2; ++next) {
          // This is weight row column * 2 + quad * 2 + next of the tile.
          float ofWeight =
              __shfl_sync(0xffffffffu, weights.ofRows[column * 2 / 32],
                          column * 2 % 32 + quad * 2 + next);
#pragma unroll
          for (int slot = 0; slot < 2 * kAtoms; ++slot)
            fragment.scale(slot / 2 * Fragment::kAtomSize + column +
                               slot % 2 * 2 + next,
                           own[slot] * ofWeight);
        }
    }
  }
};

namespace detail {
template <class Config>
__device__ __forceinline__ auto
secondScalesOf(const WeightScales<Config> &weights) {
  if constexpr (Config::kSecondScale)
    return SwappedSecondScales<Config>(weights);
  else
    return NoScales();
}
} // namespace detail

/// Returns the scales of a Fragment's accumulators.
template <class Fragment, class Config>
__device__ __forceinline__ auto scalesOf(const WeightScales<Config> &weights) {
  if constexpr (takesSlabs<typename Config::Mma> && Config::Mma::kPromoted)
    return SlabSums<Config, Fragment>(weights.ofRows);
  else if constexpr (takesSlabs<typename Config::Mma>)
    return SlabScaling<Config, WeightScales<Config>::kCount / 2>(
        weights.ofRows);
  else if constexpr (scalesBlocks<typename Config::Mma>)
    return detail::secondScalesOf(weights);
  else if constexpr (!ScaleLayout<Config>::kScaled)
    return NoScales();
  else if constexpr (Fragment::kTokensAreColumns)
    return SwappedScales<Config, Fragment>(weights);
  else
    return RowScales<Config, Fragment>(weights);
}

} // namespace moe
