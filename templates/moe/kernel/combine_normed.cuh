//===- combine_normed.cuh - the weighted sum of normalized rows -*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// out[m] = sum over k of weights[m, k] * z / sqrt(mean(z^2) + kEpsilon) +
// residual[m], where z = (1 + norm_weight) * partials[positions[m, k]]. The sum
// is f32, in the order of k, and rounded once. Pairs with position -1 add
// nothing, so the sum of a token without other pairs is 0.
//
// Args, in order. The condition for the presence of an argument is in brackets.
//   partials: Partial [rows, kHidden]
//   positions: int [tokens, kPairs], the sorted row of each pair, or -1
//   topk_weights: float [tokens, kPairs]
//   norm_weight: float [kHidden]
//   int tokens
//   out: Output [tokens, kHidden]
//   residual: Output [tokens, kHidden], null or out itself [if the layer has a
//     residual]
//
// Grid.x: tokens. A column's factor 1 + norm_weight is the same in all rows, so
// the sum over k is multiplied by it, not each row.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/combine/token_columns.cuh"
#include "moe/combine/weighted_sum.cuh"
#include "moe/core/concepts.cuh"
#include "moe/core/pdl.cuh"
#include "moe/core/types.cuh"
#include "moe/math/expert_norm.cuh"

namespace moe {

template <class Config> constexpr bool checkCombineNormedConfig() {
  checkCommonConfig<Config>();
  MOE_REQUIRE_TYPE(Config, Partial, "element type of the partial sums");
  MOE_REQUIRE_TYPE(Config, Output, "element type of the output");
  MOE_REQUIRE_VALUE(Config, kPairs, "(token, expert) pairs per token");
  MOE_REQUIRE_VALUE(Config, kHidden, "columns");
  MOE_REQUIRE_VALUE(Config, kEpsilon,
                    "the epsilon that is added to the mean of squares");
  MOE_REQUIRE_VALUE(
      Config, kPlacesEarly,
      "positions and weights are final before the predecessor launch ends");
  static_assert(Config::kPairs <= 32,
                "kPairs must be at most 32, one per lane of a warp");
  return true;
}

/// Returns the dynamic shared memory of the kernel in bytes, 0.
template <class Config> constexpr int sharedBytes() {
  static_assert(checkCombineNormedConfig<Config>());
  return 0;
}

namespace detail {

/// Computes the weighted sum of one token by one CTA.
template <class Config> class NormedSum : TokenColumns<Config> {
  using Columns = TokenColumns<Config>;
  using Columns::kPartialVectors;
  using Columns::kVectors;
  using Columns::kWidth;
  using typename Columns::Args;
  using typename Columns::Partial;
  static constexpr int kPairs = Config::kPairs;
  static constexpr int kWarps = Config::kThreads / 32;
  /// The number of pairs whose rows are loaded together.
  static constexpr int kBatch = minimum(kPairs, 8);
  /// True if each thread keeps the vectors that it loaded for the norms in
  /// registers, so that rows are read once.
  static constexpr bool kReadsOnce =
      kVectors <= Config::kThreads && kPairs <= kBatch;
  using Batch = Vector16[kBatch][kPartialVectors];

public:
  struct Shared {
    int rows[kPairs];
    float scales[kPairs];
    float squares[kBatch][kWarps];
  };

  __device__ __forceinline__ NormedSum(const Args &args, Shared &shared)
      : args(args), shared(shared) {}

  /// Reads the positions and weights of a token's pairs into shared memory.
  __device__ __forceinline__ void fetch(int token) {
    int k = int(threadIdx.x);
    if (k >= kPairs)
      return;
    long long pair = (long long)token * kPairs + k;
    shared.rows[k] = Columns::ofPlace(args.positions + pair);
    shared.scales[k] = Columns::ofPlace(args.topk_weights + pair);
  }

  __device__ __forceinline__ void write(int token) {
    __syncthreads();
    if constexpr (kReadsOnce) {
      int column = int(threadIdx.x) * kWidth;
      bool hasColumns = int(threadIdx.x) < kVectors;
      Batch rows;
      float squares[kBatch] = {};
      if (hasColumns) {
        load(0, column, rows);
        addSquares(column, rows, squares);
      }
      norm(0, squares);
      if (hasColumns) {
        float sums[kWidth] = {};
        addBatch(0, rows, sums);
        store(token, column, sums);
      }
    } else {
#pragma unroll 1
      for (int first = 0; first < kPairs; first += kBatch) {
        float squares[kBatch] = {};
#pragma unroll 1
        for (int v = int(threadIdx.x); v < kVectors; v += Config::kThreads) {
          Batch rows;
          load(first, v * kWidth, rows);
          addSquares(v * kWidth, rows, squares);
        }
        norm(first, squares);
      }
#pragma unroll 1
      for (int v = int(threadIdx.x); v < kVectors; v += Config::kThreads) {
        float sums[kWidth] = {};
#pragma unroll 1
        for (int first = 0; first < kPairs; first += kBatch) {
          Batch rows;
          load(first, v * kWidth, rows);
          addBatch(first, rows, sums);
        }
        store(token, v * kWidth, sums);
      }
    }
  }

private:
  const Args &args;
  Shared &shared;

  static __device__ __forceinline__ bool isPair(int pair) {
    return kPairs % kBatch == 0 || pair < kPairs;
  }

  /// Loads the columns from `column` on of the rows of pairs [first, first +
  /// kBatch). Absent rows are zeros.
  __device__ __forceinline__ void load(int first, int column, Batch &rows) {
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      int row = isPair(first + k) ? shared.rows[first + k] : -1;
      const Vector16 *source = reinterpret_cast<const Vector16 *>(
          args.partials + (long long)row * Config::kHidden + column);
#pragma unroll
      for (int i = 0; i < kPartialVectors; ++i) {
        rows[k][i] = Vector16{};
        if (row >= 0 && Columns::template isColumn<Partial>(column, i))
          rows[k][i] = source[i];
      }
    }
  }

  __device__ __forceinline__ void loadGains(int column,
                                            float (&gains)[kWidth]) {
    constexpr int kFloats = kPerVector<float>;
    const Vector16 *source =
        reinterpret_cast<const Vector16 *>(args.norm_weight + column);
#pragma unroll
    for (int i = 0; i < kWidth / kFloats; ++i) {
      Vector16 vector{};
      if (Columns::template isColumn<float>(column, i))
        vector = source[i];
      unpack<float>(vector, gains + i * kFloats);
    }
#pragma unroll
    for (int j = 0; j < kWidth; ++j)
      gains[j] = normGain(gains[j]);
  }

  __device__ __forceinline__ void addSquares(int column, const Batch &rows,
                                             float (&squares)[kBatch]) {
    float gains[kWidth];
    loadGains(column, gains);
#pragma unroll
    for (int k = 0; k < kBatch; ++k)
#pragma unroll
      for (int i = 0; i < kPartialVectors; ++i) {
        float values[kPerVector<Partial>];
        unpack<Partial>(rows[k][i], values);
#pragma unroll
        for (int j = 0; j < kPerVector<Partial>; ++j) {
          float scaled = gains[i * kPerVector<Partial> + j] * values[j];
          squares[k] = fmaf(scaled, scaled, squares[k]);
        }
      }
  }

  /// Multiplies each pair's weight in a batch by the inverse RMS of the pair's
  /// row. `squares`: the calling thread's sums of squares, one per pair. The
  /// warps' sums are added in warp order, so the result does not depend on
  /// timing.
  __device__ __forceinline__ void norm(int first,
                                       const float (&squares)[kBatch]) {
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      float sum = ptx::warpSum(squares[k]);
      if (threadIdx.x % 32 == 0)
        shared.squares[k][threadIdx.x / 32] = sum;
    }
    __syncthreads();
    int k = int(threadIdx.x);
    if (k < kBatch && isPair(first + k)) {
      float sum = 0.0f;
#pragma unroll 1
      for (int warp = 0; warp < kWarps; ++warp)
        sum += shared.squares[k][warp];
      shared.scales[first + k] *=
          inverseRms(sum, Config::kHidden, Config::kEpsilon);
    }
    __syncthreads();
  }

  __device__ __forceinline__ void addBatch(int first, const Batch &rows,
                                           float (&sums)[kWidth]) {
#pragma unroll
    for (int k = 0; k < kBatch; ++k)
      if (isPair(first + k) && shared.rows[first + k] >= 0)
        addWeighted<Partial>(sums, rows[k], shared.scales[first + k],
                             [](int, float *) {});
  }

  __device__ __forceinline__ void store(int token, int column,
                                        float (&sums)[kWidth]) {
    float gains[kWidth];
    loadGains(column, gains);
#pragma unroll
    for (int j = 0; j < kWidth; ++j)
      sums[j] *= gains[j];
    Columns::store(args, token, column, sums);
  }
};

} // namespace detail

template <class Config>
__device__ __forceinline__ void
combineNormed(const typename Config::Args &args) {
  static_assert(checkCombineNormedConfig<Config>());
  using Sum = detail::NormedSum<Config>;
  __shared__ typename Sum::Shared shared;
  if constexpr (!Config::kPlacesEarly)
    awaitPredecessor<Config>();
  int token = int(blockIdx.x);
  bool isToken = token < args.tokens;
  Sum sum(args, shared);
  sum.fetch(isToken ? token : 0);
  if constexpr (Config::kPlacesEarly)
    awaitPredecessor<Config>();
  if (isToken)
    sum.write(token);
}

} // namespace moe
