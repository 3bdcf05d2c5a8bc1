//===- scales_slice.cuh - scales of a slice of columns ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The scales of accumulators in slices, which are 64 or 128 result columns
// (moe/matmul/slices/stationary.cuh). Rows are weight rows, and tokens stay in
// shared memory. If scales change along k, all weight rows of a pipeline stage
// share one scale. Scales per token and per weight row are handled as in
// moe/matmul/feed/scales_swapped.cuh.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx.cuh"
#include "moe/core/ptx_async.cuh"
#include "moe/matmul/feed/scales.cuh"
#include "moe/matmul/feed/scales_swapped.cuh"

namespace moe {

template <class Config, class Fragment>
struct SliceScales : SwappedScales<Config, Fragment> {
  using Layout = ScaleLayout<Config>;
  float ofWeights = 1.0f;

  __device__
      __forceinline__ explicit SliceScales(const WeightScales<Config> &weights)
      : SwappedScales<Config, Fragment>(weights) {}

  /// Loads the weight scale of a pipeline stage. Only lane 0 reads it from
  /// shared memory, because lane 0 releases the stage for its warp. The other
  /// lanes receive the scale by a shuffle while MMAs run.
  __device__ __forceinline__ void fetchWeights(unsigned from) {
    if constexpr (Layout::kByGroup) {
      if (threadIdx.x % 32 == 0)
        ofWeights = __uint_as_float(ptx::loadShared(from));
      ofWeights = __shfl_sync(0xffffffffu, ofWeights, 0);
    }
  }

  /// Token scales are read just before they are used. They are not in the ring,
  /// so they do not delay the release of a stage.
  static constexpr int kChunk = 4;
  static constexpr int kChunks = Fragment::kPieceSize / kChunk;
  static constexpr int kAhead = 0, kReleased = -1;
  struct OfTokens {
    float2 pair;
  };
  static __device__ __forceinline__ unsigned
  ofThread(unsigned shared, int piece, const Fragment &fragment) {
    return shared + unsigned(fragment.firstCol) * 4 +
           unsigned(piece % Fragment::kPiecesOfAtom * Fragment::kPieceColumns) *
               4;
  }
  __device__ __forceinline__ void fetchTokens(unsigned from, int chunk,
                                              OfTokens &to) const {
    if constexpr (Layout::kByGroup)
      to.pair = ptx::loadSharedPair(from + unsigned(chunk * kChunk * 2) * 4);
  }
  __device__ __forceinline__ float ofGroup(const OfTokens &of, int,
                                           int i) const {
    if constexpr (Layout::kByGroup)
      return (i % 2 == 0 ? of.pair.x : of.pair.y) * ofWeights;
    else
      return 1.0f;
  }
};

} // namespace moe
