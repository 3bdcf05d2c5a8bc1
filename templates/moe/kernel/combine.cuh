//===- combine.cuh - the weighted sum of a token's experts ------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// out[m] = sum over k of weights[m, k] * partials[positions[m, k]], f32, in the
// order of k, + residual[m], rounded once. Positions of -1 are skipped; a token
// without any gets zeros. Zero experts, whose pairs have kIdentityPlace as
// their id, add the sum of their weights times x[m].
//
// Args, in order: partials [rows, kHidden], positions [tokens, kPairs],
//   topk_weights [tokens, kPairs] (absent where weights multiply x: each is 1),
//   int tokens, out [tokens, kHidden], residual [tokens, kHidden] (of the
//   output's type, null or out itself; absent in a layer without), addend
//   [pairs, kHidden] (null: none; absent without adapters), of which a row
//   joins the partial sums of its pair; in a layer with zero experts identity,
//   that is x, long long identity_row_stride, topk_ids [tokens, kPairs] and
//   add_identity (core/rank.cuh).
// Grid.x: tokens * kColumnBlocks; neighbouring CTAs share a token.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/concepts.cuh"
#include "moe/core/pdl.cuh"
#include "moe/core/rank.cuh"
#include "moe/core/types.cuh"
#include "moe/epilogue/weighted_sum.cuh"
#include "moe/routing/place.cuh"

namespace moe {

template <class Config> constexpr bool checkCombineConfig() {
  checkCommonConfig<Config>();
  MOE_REQUIRE_TYPE(Config, Partial, "element type of the partial sums");
  MOE_REQUIRE_TYPE(Config, Output, "element type of the output");
  MOE_REQUIRE_VALUE(Config, kPairs, "pairs of a token");
  MOE_REQUIRE_VALUE(Config, kHidden, "columns");
  MOE_REQUIRE_VALUE(Config, kColumnBlocks, "CTAs that share a token");
  MOE_REQUIRE_VALUE(Config, kPlacesEarly,
                    "the predecessor wrote neither positions nor weights");
  return true;
}

/// Dynamic shared memory of the kernel: none.
template <class Config> constexpr int sharedBytes() {
  static_assert(checkCombineConfig<Config>());
  return 0;
}

template <class Config>
__device__ __forceinline__ void combine(const typename Config::Args &args) {
  static_assert(checkCombineConfig<Config>());
  using Partial = typename Config::Partial;
  using Output = typename Config::Output;
  constexpr int kPairs = Config::kPairs;
  /// Columns of a thread: one 16-byte vector of the narrower type, at least.
  constexpr int kWidth = maximum(kPerVector<Partial>, kPerVector<Output>);
  constexpr bool kWeighs =
      requires(typename Config::Args a) { a.topk_weights; };
  constexpr bool kZero = requires(typename Config::Args a) { a.identity; };
  constexpr int kPartialVectors = kWidth / kPerVector<Partial>;
  constexpr int kOutputVectors = kWidth / kPerVector<Output>;
  constexpr bool kTail = Config::kHidden % kWidth != 0;
  constexpr int kVectors = ceilDiv(Config::kHidden, kWidth);
  constexpr int kShare = ceilDiv(kVectors, Config::kColumnBlocks);
  /// Experts whose rows are requested together.
  constexpr int kBatch = minimum(kPairs, 8);

  if constexpr (!Config::kPlacesEarly)
    awaitPredecessor<Config>();
  int token = int(blockIdx.x) / Config::kColumnBlocks;
  int share = int(blockIdx.x) % Config::kColumnBlocks;
  bool isToken = token < args.tokens;
  const int *positions =
      args.positions + (long long)(isToken ? token : 0) * kPairs;
  int rows[kBatch];
  float scales[kBatch];
  /// The sum of the zero experts' weights, which multiplies x.
  float own = 0.0f;
  // Ahead of the wait a line of the first-level cache may be of a run before.
  auto ofPlace = [](const auto *from) {
    if constexpr (Config::kPlacesEarly)
      return ptx::loadFresh(from);
    else
      return *from;
  };
  auto fetchPlaces = [&](int first) {
    long long pair = (long long)(isToken ? token : 0) * kPairs + first;
    if (kZero && first == 0)
      own = 0.0f;
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      bool exists = kPairs % kBatch == 0 || first + k < kPairs;
      rows[k] = exists ? ofPlace(positions + first + k) : -1;
      scales[k] = exists ? 1.0f : 0.0f;
      if constexpr (kWeighs)
        if (exists)
          scales[k] = ofPlace(args.topk_weights + pair + k);
      if constexpr (kZero)
        if (exists &&
            ofPlace(args.topk_ids + pair + k) == routing::kIdentityPlace)
          own += scales[k];
    }
  };
  // One batch is all of them: they are read once, while the rows are computed.
  if constexpr (kPairs <= kBatch)
    fetchPlaces(0);
  if constexpr (Config::kPlacesEarly)
    awaitPredecessor<Config>();
  if (!isToken)
    return;
  int end = min(kVectors, (share + 1) * kShare);
#pragma unroll 1
  for (int v = share * kShare + int(threadIdx.x); v < end;
       v += Config::kThreads) {
    int column = v * kWidth;
    float sums[kWidth] = {};
#pragma unroll 1
    for (int first = 0; first < kPairs; first += kBatch) {
      Vector16 vectors[kBatch][kPartialVectors];
      if constexpr (kPairs > kBatch)
        fetchPlaces(first);
#pragma unroll
      for (int k = 0; k < kBatch; ++k) {
        const Vector16 *source = reinterpret_cast<const Vector16 *>(
            args.partials + (long long)rows[k] * Config::kHidden + column);
#pragma unroll
        for (int i = 0; i < kPartialVectors; ++i) {
          vectors[k][i] = Vector16{};
          if (rows[k] >= 0 &&
              (!kTail || column + i * kPerVector<Partial> < Config::kHidden))
            vectors[k][i] = source[i];
        }
      }
#pragma unroll
      for (int k = 0; k < kBatch; ++k) {
        if (rows[k] < 0)
          continue;
        addWeighted<Partial>(
            sums, vectors[k], scales[k], [&](int i, float *values) {
              if constexpr (requires { args.addend; })
                if (args.addend) {
                  long long at = ((long long)token * kPairs + first + k) *
                                     Config::kHidden +
                                 column + i * kPerVector<Partial>;
#pragma unroll
                  for (int j = 0; j < kPerVector<Partial>; ++j)
                    if (!kTail ||
                        column + i * kPerVector<Partial> + j < Config::kHidden)
                      values[j] += toFloat(args.addend[at + j]);
                }
            });
      }
    }
    if constexpr (kZero)
      if (own != 0.0f && addsIdentity(args)) {
        using Input = typename Config::Input;
        // As elements: x may be narrower or wider than what a thread writes.
        const Input *x =
            args.identity + token * args.identity_row_stride + column;
#pragma unroll
        for (int j = 0; j < kWidth; ++j)
          if (!kTail || column + j < Config::kHidden)
            sums[j] = fmaf(own, toFloat(x[j]), sums[j]);
      }
    long long first = (long long)token * Config::kHidden + column;
    Vector16 *out = reinterpret_cast<Vector16 *>(args.out + first);
#pragma unroll
    for (int i = 0; i < kOutputVectors; ++i)
      if (!kTail || column + i * kPerVector<Output> < Config::kHidden) {
        float *values = sums + i * kPerVector<Output>;
        if constexpr (requires { args.residual; })
          if (args.residual) {
            float more[kPerVector<Output>];
            unpack<Output>(
                reinterpret_cast<const Vector16 *>(args.residual + first)[i],
                more);
#pragma unroll
            for (int j = 0; j < kPerVector<Output>; ++j)
              values[j] += more[j];
          }
        out[i] = pack<Output>(values);
      }
  }
}

} // namespace moe
