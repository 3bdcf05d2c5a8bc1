//===- scales_swapped.cuh - scales of swapped operands ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The scales of a Fragment whose rows are weight rows and whose columns are
// tokens. A thread has two weight rows, 8 apart, of every 64, and many tokens.
// Token scales per group of 128 along k are read from shared memory, four at a
// time. Each scale per token is loaded from global memory by one thread while
// the warpgroup multiplies. At the end, the scales are distributed through
// shared memory.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx.cuh"
#include "moe/core/ptx_async.cuh"
#include "moe/core/types.cuh"
#include "moe/matmul/feed/scales.cuh"

namespace moe {

/// Returns the byte offset of a token's scale among the scales of a tile. If
/// tokens are columns, the four scales that lane q of a quad needs of every 16
/// tokens (tokens 2 q, 2 q + 1, 2 q + 8 and 2 q + 9) are contiguous.
template <bool kTokensAreColumns>
__device__ __forceinline__ unsigned tokenScaleOffset(int token) {
  if constexpr (!kTokensAreColumns)
    return unsigned(token) * 4;
  return unsigned(token / 16 * 16 + token % 8 / 2 * 4 + token / 8 % 2 * 2 +
                  token % 2) *
         4;
}

/// The per-token scales of a tile, or the one scale of all tokens.
template <class Config, class Fragment> struct TokenScales {
  using Layout = ScaleLayout<Config>;
  static constexpr bool kOfTokens = Layout::kLhs == quant::LhsScale::Token;
  static constexpr int kAtoms = Config::Mma::kRows / 64;
  static constexpr int kAtomSize = Fragment::kSize / kAtoms;
  static constexpr int kTokens = kAtomSize * 2;
  /// Number of token scales that a thread loads from global memory.
  static constexpr int kOwn = kOfTokens ? ceilDiv(kTokens, 128) : 1;
  float own[kOwn];

  /// Loads the thread's per-token scales. `rows`: number of tokens in the tile.
  /// `source(r)`: row of lhs for token r of the tile.
  template <class Args, class Source>
  __device__ __forceinline__ void fetchOwn(const Args &args, int thread,
                                           int rows, Source source) {
    const float *lhs = args.lhs_scale;
    if constexpr (kOfTokens) {
#pragma unroll
      for (int j = 0; j < kOwn; ++j) {
        int token = thread + j * 128;
        own[j] = lhs[source(token < rows ? token : 0)];
      }
    } else if constexpr (!Layout::kByGroup) {
      own[0] = lhs[0];
    }
  }

  /// Loads kCount scales, four per 16 tokens. `from`: shared-memory address of
  /// the first.
  template <int kCount>
  static __device__ __forceinline__ void load(unsigned from,
                                              float (&scales)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; i += 4) {
      unsigned words[4];
      ptx::loadShared(from + unsigned(i * 16), words);
#pragma unroll
      for (int j = 0; j < 4; ++j)
        scales[i + j] = __uint_as_float(words[j]);
    }
  }

  /// Multiplies the final accumulators by the tokens' scales and by ofRow(2 * b
  /// + j), for row j (0 or 1) of the thread's rows in 64-row MMA block b.
  ///
  ///   shared   shared-memory address with room for the scales of all tokens
  ///   barrier  the warpgroup's named barrier
  ///   thread   index in the warpgroup
  template <class OfRow>
  __device__ __forceinline__ void multiply(Fragment &fragment, unsigned shared,
                                           int barrier, int thread,
                                           OfRow ofRow) const {
    if constexpr (kOfTokens) {
      // Waits until all threads have read the previous contents.
      ptx::synchronize(barrier, 128);
#pragma unroll
      for (int j = 0; j < kOwn; ++j)
        if (thread + j * 128 < kTokens)
          ptx::storeShared(shared + tokenScaleOffset<true>(thread + j * 128),
                           __float_as_uint(own[j]));
      ptx::synchronize(barrier, 128);
    }
#pragma unroll
    for (int first = 0; first < kAtomSize; first += 8) {
      float tokens[4] = {own[0], own[0], own[0], own[0]};
      if constexpr (kOfTokens)
        load(shared + unsigned(first * 2 * 4 + fragment.firstCol * 8), tokens);
#pragma unroll
      for (int i = 0; i < 8 * kAtoms; ++i) {
        int atom = i / 8, j = i % 8;
        fragment.scale(atom * kAtomSize + first + j,
                       tokens[j / 4 * 2 + j % 2] * ofRow(atom * 2 + j % 4 / 2));
      }
    }
  }
};

template <class Config, class Fragment>
struct SwappedScales : TokenScales<Config, Fragment> {
  using Tokens = TokenScales<Config, Fragment>;
  using Tokens::kAtoms, Tokens::load;
  using typename Tokens::Layout;
  static constexpr int kWeights = Layout::kByGroup ? 2 : 2 * kAtoms;
  WeightScales<Config> weights;
  float rhsScale[kWeights];

  __device__ __forceinline__ explicit SwappedScales(
      const WeightScales<Config> &weights)
      : weights(weights) {
    if constexpr (!Layout::kByGroup)
#pragma unroll
      for (int j = 0; j < kWeights; ++j)
        rhsScale[j] = weights.ofRows[j];
  }

  /// Loads the weight scales of a pipeline stage. `from`: their shared-memory
  /// address. A warpgroup's weight rows are within one block of 128, or one
  /// gate block and one up block, because tiles start at multiples of its row
  /// count.
  __device__ __forceinline__ void fetchWeights(unsigned from) {
    if constexpr (Layout::kByGroup) {
      if constexpr (Layout::kParts == 2) {
        float2 both = ptx::loadSharedPair(from);
        rhsScale[0] = both.x;
        rhsScale[1] = both.y;
      } else {
        rhsScale[0] = rhsScale[1] = __uint_as_float(ptx::loadShared(from));
      }
    }
  }

  /// Number of accumulators that are scaled at a time (a chunk): a whole piece
  /// (moe/matmul/contract.cuh) if registers suffice.
  static constexpr int kChunk = Fragment::kSize < 128 ? Fragment::kPieceSize
                                : Fragment::kPieceSize % 16 == 0 && kAtoms == 1
                                    ? 16
                                    : 8;
  static constexpr int kChunks = Fragment::kPieceSize / kChunk;
  /// kAhead: number of chunks whose scales are loaded ahead. kReleased: the
  /// chunk at which all scales have been loaded, so that the stage can be
  /// released.
  static constexpr int kAhead = 1;
  static constexpr int kReleased = maximum(kChunks - 2, 0);

  /// Token scales of the current group along k, for the kChunk accumulators of
  /// a chunk.
  struct OfTokens {
    float scales[kChunk / 2];
  };
  /// Returns the shared-memory address of this thread's token scales for a
  /// piece. `shared`: address of the scales of the tile's tokens.
  static __device__ __forceinline__ unsigned
  ofThread(unsigned shared, int piece, const Fragment &fragment) {
    // Rereads the thread index where registers are scarce.
    int quad = kAtoms > 1 ? ptx::threadIndex() % 4 : fragment.firstCol / 2;
    return shared + unsigned(piece % Fragment::kPiecesOfAtom *
                                 Fragment::kPieceColumns * 4 +
                             quad * 16);
  }
  /// Loads the token scales of a chunk. `from`: see ofThread.
  __device__ __forceinline__ void fetchTokens(unsigned from, int chunk,
                                              OfTokens &to) const {
    if constexpr (Layout::kByGroup)
      load(from + unsigned(chunk * kChunk * 2 * 4), to.scales);
  }

  /// Returns the factor of partial accumulator i of a chunk.
  __device__ __forceinline__ float ofGroup(const OfTokens &of, int,
                                           int i) const {
    if constexpr (Layout::kByGroup)
      return of.scales[i / 4 * 2 + i % 2] * rhsScale[i % 4 / 2];
    else
      return 1.0f;
  }

  /// Multiplies the final accumulators by the scales, if scales are per token
  /// and per weight row. See TokenScales.
  __device__ __forceinline__ void finish(Fragment &fragment, unsigned shared,
                                         int barrier, int thread) {
    if constexpr (!Layout::kByGroup)
      this->multiply(fragment, shared, barrier, thread,
                     [&](int row) { return rhsScale[row]; });
  }
};

} // namespace moe
