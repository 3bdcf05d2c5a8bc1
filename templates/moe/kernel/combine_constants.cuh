//===- combine_constants.cuh - a sum with constant experts ------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// out[m] = sum over k of weights[m, k] * y + residual[m]. The sum is f32, in
// the order of k, and rounded once. If ids[m, k] >= kExperts, y is row ids[m,
// k] - kExperts of the constants. Otherwise y is partials[positions[m, k]], and
// a position of -1 is skipped.
//
// Args, in order. The condition for the presence of an argument is in brackets.
//   partials: Partial [rows, kHidden]
//   positions: int [tokens, kPairs], the sorted row of each pair, or -1
//   topk_weights: float [tokens, kPairs]
//   topk_ids: int [tokens, kPairs]
//   constants: float [number of constant experts, kHidden]
//   int tokens
//   out: Output [tokens, kHidden]
//   residual: Output [tokens, kHidden], null or out itself [if the layer has a
//     residual]
//
// Grid.x: tokens * kColumnBlocks. kColumnBlocks adjacent CTAs share a token.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/combine/token_columns.cuh"
#include "moe/combine/weighted_sum.cuh"
#include "moe/core/concepts.cuh"
#include "moe/core/pdl.cuh"
#include "moe/core/types.cuh"

namespace moe {

template <class Config> constexpr bool checkCombineConstantsConfig() {
  checkCommonConfig<Config>();
  MOE_REQUIRE_TYPE(Config, Partial, "element type of the partial sums");
  MOE_REQUIRE_TYPE(Config, Output, "element type of the output");
  MOE_REQUIRE_VALUE(Config, kPairs, "(token, expert) pairs per token");
  MOE_REQUIRE_VALUE(Config, kHidden, "columns");
  MOE_REQUIRE_VALUE(Config, kExperts,
                    "physical experts without constant experts");
  MOE_REQUIRE_VALUE(Config, kColumnBlocks, "CTAs that share a token");
  MOE_REQUIRE_VALUE(
      Config, kPlacesEarly,
      "positions and weights are final before the predecessor launch ends");
  return true;
}

/// Returns the dynamic shared memory of the kernel in bytes, 0.
template <class Config> constexpr int sharedBytes() {
  static_assert(checkCombineConstantsConfig<Config>());
  return 0;
}

namespace detail {

/// Computes the weighted sum of a token, a block of columns per CTA.
template <class Config> class ConstantsSum : TokenColumns<Config> {
  using Columns = TokenColumns<Config>;
  using Columns::kPartialVectors;
  using Columns::kVectors;
  using Columns::kWidth;
  using typename Columns::Args;
  using typename Columns::Partial;
  static constexpr int kPairs = Config::kPairs;
  static constexpr int kShare = ceilDiv(kVectors, Config::kColumnBlocks);
  /// The number of pairs whose rows are loaded together.
  static constexpr int kBatch = minimum(kPairs, 8);

public:
  /// Reads the positions, ids and weights of a token's pairs early, if they fit
  /// into one batch.
  __device__ __forceinline__ void fetch(const Args &args, int token) {
    if constexpr (kPairs <= kBatch)
      fetchPlaces(args, token, 0);
  }

  __device__ __forceinline__ void write(const Args &args, int token,
                                        int share) {
    int end = min(kVectors, (share + 1) * kShare);
#pragma unroll 1
    for (int v = share * kShare + int(threadIdx.x); v < end;
         v += Config::kThreads) {
      int column = v * kWidth;
      float sums[kWidth] = {};
#pragma unroll 1
      for (int first = 0; first < kPairs; first += kBatch) {
        if constexpr (kPairs > kBatch)
          fetchPlaces(args, token, first);
        addBatch(args, column, sums);
      }
      Columns::store(args, token, column, sums);
    }
  }

private:
  /// Per pair of the batch: the row of `partials`, -1 if the pair adds nothing,
  /// or -2 - c for constant expert c.
  int rows[kBatch];
  float scales[kBatch];

  __device__ __forceinline__ void fetchPlaces(const Args &args, int token,
                                              int first) {
    long long pair = (long long)token * kPairs + first;
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      rows[k] = -1;
      scales[k] = 0.0f;
      if (kPairs % kBatch == 0 || first + k < kPairs) {
        int id = Columns::ofPlace(args.topk_ids + pair + k);
        rows[k] = id >= Config::kExperts
                      ? -2 - (id - Config::kExperts)
                      : Columns::ofPlace(args.positions + pair + k);
        scales[k] = Columns::ofPlace(args.topk_weights + pair + k);
      }
    }
  }

  __device__ __forceinline__ void addBatch(const Args &args, int column,
                                           float (&sums)[kWidth]) {
    Vector16 vectors[kBatch][kPartialVectors];
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      const Vector16 *source = reinterpret_cast<const Vector16 *>(
          args.partials + (long long)rows[k] * Config::kHidden + column);
#pragma unroll
      for (int i = 0; i < kPartialVectors; ++i) {
        vectors[k][i] = Vector16{};
        if (rows[k] >= 0 && Columns::template isColumn<Partial>(column, i))
          vectors[k][i] = source[i];
      }
    }
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      if (rows[k] >= 0)
        addWeighted<Partial>(sums, vectors[k], scales[k], [](int, float *) {});
      else if (rows[k] <= -2)
        addConstant(args, -2 - rows[k], column, scales[k], sums);
    }
  }

  __device__ __forceinline__ void addConstant(const Args &args, int constant,
                                              int column, float scale,
                                              float (&sums)[kWidth]) {
    constexpr int kFloats = kPerVector<float>;
    const Vector16 *source = reinterpret_cast<const Vector16 *>(
        args.constants + (long long)constant * Config::kHidden + column);
#pragma unroll
    for (int i = 0; i < kWidth / kFloats; ++i)
      if (Columns::template isColumn<float>(column, i)) {
        float values[kFloats];
        unpack<float>(source[i], values);
#pragma unroll
        for (int j = 0; j < kFloats; ++j)
          sums[i * kFloats + j] = fmaf(scale, values[j], sums[i * kFloats + j]);
      }
  }
};

} // namespace detail

template <class Config>
__device__ __forceinline__ void
combineConstants(const typename Config::Args &args) {
  static_assert(checkCombineConstantsConfig<Config>());
  if constexpr (!Config::kPlacesEarly)
    awaitPredecessor<Config>();
  int token = int(blockIdx.x) / Config::kColumnBlocks;
  int share = int(blockIdx.x) % Config::kColumnBlocks;
  bool isToken = token < args.tokens;
  detail::ConstantsSum<Config> sum;
  sum.fetch(args, isToken ? token : 0);
  if constexpr (Config::kPlacesEarly)
    awaitPredecessor<Config>();
  if (isToken)
    sum.write(args, token, share);
}

} // namespace moe
