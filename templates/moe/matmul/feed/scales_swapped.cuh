//===- scales_swapped.cuh - scales of swapped operands ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The scales of a Fragment whose rows are weight rows and whose columns are
// tokens. A thread has two weight rows, 8 apart, of each 64, and many tokens.
// Tokens' scales of a group of 128 along k are read from shared memory, four at
// a time. Scales of a whole token are loaded by one thread each while the
// warpgroup multiplies, and are distributed through shared memory at the end.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx.cuh"
#include "moe/core/ptx_async.cuh"
#include "moe/core/types.cuh"
#include "moe/matmul/feed/scales.cuh"

namespace moe {

/// Returns the byte offset of a token's scale among those of a tile. If tokens
/// are columns, the four scales of a thread (columns q * 2, + 1, + 8, + 9 of
/// 16) are contiguous.
template <bool kTokensAreColumns>
__device__ __forceinline__ unsigned tokenScaleOffset(int token) {
  if constexpr (!kTokensAreColumns)
    return unsigned(token) * 4;
  return unsigned(token / 16 * 16 + token % 8 / 2 * 4 + token / 8 % 2 * 2 +
                  token % 2) *
         4;
}

/// The scales of whole tokens, or the one of all tokens.
template <class Config, class Fragment> struct TokenScales {
  using Layout = ScaleLayout<Config>;
  static constexpr bool kOfTokens = Layout::kLhs == quant::LhsScale::Token;
  static constexpr int kAtoms = Config::Mma::kRows / 64;
  static constexpr int kAtomSize = Fragment::kSize / kAtoms;
  static constexpr int kTokens = kAtomSize * 2;
  /// Number of token scales that a thread loads from global memory.
  static constexpr int kOwn = kOfTokens ? ceilDiv(kTokens, 128) : 1;
  float own[kOwn];

  /// Loads the scales of whole tokens. `source(r)`: row of lhs for token r of
  /// the tile.
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

  /// Loads four scales for each 16 tokens, starting at address `from`.
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

  /// Multiplies the final accumulators by the tokens' scales and by ofRow(2 *
  /// atom + j), in which j is a thread's weight row of an atom, 0 or 1.
  /// `shared`: room for the scales of the warpgroup's tokens. `barrier`: its
  /// named barrier.
  template <class OfRow>
  __device__ __forceinline__ void multiply(Fragment &fragment, unsigned shared,
                                           int barrier, int thread,
                                           OfRow ofRow) const {
    if constexpr (kOfTokens) {
      // No thread reads the previous contents any more.
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

  /// Loads the weights' scales of a stage. A warpgroup's weight rows are within
  /// one block, or one of gates and one of ups, because tiles start at
  /// multiples of its rows. `from`: their shared-memory address.
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

  /// Number of a piece's accumulators that are scaled as one chunk: all of them
  /// if registers suffice.
  static constexpr int kChunk = Fragment::kSize < 128 ? Fragment::kPieceSize
                                : Fragment::kPieceSize % 16 == 0 && kAtoms == 1
                                    ? 16
                                    : 8;
  static constexpr int kChunks = Fragment::kPieceSize / kChunk;
  /// Number of chunks whose scales are read ahead, and the chunk at which all
  /// scales have been read, so that the stage is released.
  static constexpr int kAhead = 1;
  static constexpr int kReleased = maximum(kChunks - 2, 0);

  /// The tokens' scales of a group along k, for kChunk accumulators.
  struct OfTokens {
    float scales[kChunk / 2];
  };
  /// Returns the address of this thread's scales of a piece. `shared`: address
  /// of the scales of the tile's tokens.
  static __device__ __forceinline__ unsigned
  ofThread(unsigned shared, int piece, const Fragment &fragment) {
    // The thread's index is read again if registers are scarce.
    int quad = kAtoms > 1 ? ptx::threadIndex() % 4 : fragment.firstCol / 2;
    return shared + unsigned(piece % Fragment::kPiecesOfAtom *
                                 Fragment::kPieceColumns * 4 +
                             quad * 16);
  }
  /// Loads the tokens' scales of a chunk. `from`: see ofThread.
  __device__ __forceinline__ void fetchTokens(unsigned from, int chunk,
                                              OfTokens &to) const {
    if constexpr (Layout::kByGroup)
      load(from + unsigned(chunk * kChunk * 2 * 4), to.scales);
  }

  /// Returns the factor of partial accumulator i of a chunk of a piece.
  __device__ __forceinline__ float ofGroup(const OfTokens &of, int,
                                           int i) const {
    if constexpr (Layout::kByGroup)
      return of.scales[i / 4 * 2 + i % 2] * rhsScale[i % 4 / 2];
    else
      return 1.0f;
  }

  /// Multiplies the final accumulators if a scale is of a whole row or column.
  /// See TokenScales.
  __device__ __forceinline__ void finish(Fragment &fragment, unsigned shared,
                                         int barrier, int thread) {
    if constexpr (!Layout::kByGroup)
      this->multiply(fragment, shared, barrier, thread,
                     [&](int row) { return rhsScale[row]; });
  }
};

} // namespace moe
