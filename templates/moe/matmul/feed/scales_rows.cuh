//===- scales_rows.cuh - scales if rows are tokens --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The scales of a warpgroup's Fragment whose rows are tokens and whose columns
// are weight rows. A thread has two tokens, 8 apart, of every 64 tokens.
//
// With groups of 128 along k, the 128 weight rows of a block share a scale;
// gates and ups are in separate blocks. A thread's partial accumulators for 64
// tokens belong to two tokens and to one or two such blocks. Two or four
// products (token scale * weight scale) therefore suffice for them.
//
// With scales per token and per weight row, the tokens' scales are copied with
// the first pipeline stage. Before the MMAs, lane i of each warp loads the
// scales of weight rows i, i + 32, ... Shuffles distribute them at the end.
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
                "kTileN must be 128 or 256 weight rows");
  static constexpr int kParts = Layout::kParts;
  static constexpr int kProducers = 32 * Config::Schedule::kProducerWarps;
  static constexpr int kAtoms = Config::Mma::kRows / 64;
  Weights weights;
  /// Weight scales of the current group along k; see StageScales.
  float rhsScale[2];
  /// Per-token scales of this thread's tokens.
  float own[Layout::kByGroup ? 1 : 2 * kAtoms];

  __device__ __forceinline__ explicit RowScales(const Weights &weights)
      : weights(weights) {}

  /// Loads the weight scales of a pipeline stage. `from`: their shared-memory
  /// address.
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

  /// All accumulators of a piece (moe/matmul/contract.cuh) are scaled as one
  /// chunk. kAhead, kReleased: see SwappedScales. kReleased is -1 if the stage
  /// has no scales: the stage is then released before the accumulators are
  /// added.
  static constexpr int kChunk = Fragment::kPieceSize;
  static constexpr int kChunks = 1;
  static constexpr int kAhead = Layout::kByGroup ? 1 : 0;
  static constexpr int kReleased = Layout::kByGroup ? 0 : -1;
  struct OfTokens {
    float scales[2];
  };
  /// Returns the tile row of this thread's first accumulator. The value is
  /// recomputed from the thread index where registers are scarce.
  static __device__ __forceinline__ int firstRow() {
    return Fragment::rowOfThread(ptx::threadIndex() - kProducers);
  }
  /// Returns the shared-memory address of this thread's token scales for a
  /// piece. `shared`: address of the scales of the tile's tokens.
  static __device__ __forceinline__ unsigned
  ofThread(unsigned shared, int piece, const Fragment &fragment) {
    bool few = Config::Mma::kRows > 64 || kTileN > 128;
    int row = few ? firstRow() : fragment.firstRow;
    return shared + unsigned(row + piece / Fragment::kPiecesOfAtom * 64) * 4;
  }
  /// Loads the scales of the thread's two tokens. `from`: see ofThread.
  __device__ __forceinline__ void fetchTokens(unsigned from, int,
                                              OfTokens &to) const {
    if constexpr (Layout::kByGroup)
#pragma unroll
      for (int slot = 0; slot < 2; ++slot)
        to.scales[slot] =
            __uint_as_float(ptx::loadShared(from + unsigned(slot * 8 * 4)));
  }
  /// Returns the factor of partial accumulator i of piece `piece`.
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

  /// Loads the per-token scales, which are copied with a tile's first pipeline
  /// stage. `from`: their shared-memory address.
  __device__ __forceinline__ void readFirst(unsigned from)
    requires(!ScaleLayout<Config>::kByGroup)
  {
#pragma unroll
    for (int slot = 0; slot < 2 * kAtoms; ++slot) {
      int row = firstRow() + slot / 2 * 64 + slot % 2 * 8;
      own[slot] = __uint_as_float(ptx::loadShared(from + unsigned(row) * 4));
    }
  }

  /// Multiplies the final accumulators by the scales, if scales are per token
  /// and per weight row. Called by whole warps.
  __device__ __forceinline__ void finish(Fragment &fragment, unsigned, int,
                                         int) {
    if constexpr (!Layout::kByGroup) {
      int quad = ptx::threadIndex() % 4;
#pragma unroll
      for (int column = 0; column < Fragment::kAtomSize; column += 4)
#pragma unroll
        for (int next = 0; next < 2; ++next) {
          // This factor is for weight row column * 2 + quad * 2 + next of the
          // tile.
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
  if constexpr (requires { requires Config::kSecondScale; })
    return SwappedSecondScales<Config>(weights);
  else
    return NoScales();
}
} // namespace detail

/// Returns the object that scales the accumulators of `Fragment`.
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
