//===- token_sum.cuh - the weighted sum of a token --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Computes some columns of one token's weighted sum by a CTA, for kernels that
// only combine. The headers of these kernels list their arguments.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/combine/weighted_sum.cuh"
#include "moe/core/rank.cuh"
#include "moe/core/types.cuh"
#include "moe/routing/place.cuh"

namespace moe {

template <class Config> class TokenSum {
  using Args = typename Config::Args;
  using Partial = typename Config::Partial;
  using Output = typename Config::Output;
  static constexpr int kPairs = Config::kPairs;
  /// The number of columns per thread: at least one 16-byte vector of the
  /// narrower type.
  static constexpr int kWidth =
      maximum(kPerVector<Partial>, kPerVector<Output>);
  static constexpr bool kWeighs = requires(Args a) { a.topk_weights; };
  static constexpr bool kZero = requires(Args a) { a.identity; };
  static constexpr int kPartialVectors = kWidth / kPerVector<Partial>;
  static constexpr int kOutputVectors = kWidth / kPerVector<Output>;
  static constexpr bool kTail = Config::kHidden % kWidth != 0;
  static constexpr int kVectors = ceilDiv(Config::kHidden, kWidth);
  static constexpr int kShare = ceilDiv(kVectors, Config::kColumnBlocks);
  /// The number of pairs whose rows are loaded together.
  static constexpr int kBatch = minimum(kPairs, 8);

public:
  /// Reads the positions and weights of a token's pairs if the pairs fit into
  /// one batch. It is called once, while the rows are still being computed.
  __device__ __forceinline__ void fetch(const Args &args, int token) {
    if constexpr (kPairs <= kBatch)
      fetchPlaces(args, token, 0);
  }

  /// Computes the columns of column block `share`, one of kColumnBlocks, and
  /// stores them in `out`, the token's output row.
  __device__ __forceinline__ void write(const Args &args, int token, int share,
                                        Output *out) {
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
        addBatch(args, token, first, column, sums);
      }
      addIdentity(args, token, column, sums);
      store(args, token, column, sums, out);
    }
  }

private:
  int rows[kBatch];
  float scales[kBatch];
  /// The total weight of the token's zero experts, whose output is their input
  /// x. The token's row of x is multiplied by it.
  float own = 0.0f;

  /// Loads a position, a weight or an id. With kPlacesEarly the load bypasses
  /// L1: before griddepcontrol.wait, L1 may hold a stale line of an earlier
  /// run.
  template <class T>
  static __device__ __forceinline__ T ofPlace(const T *from) {
    if constexpr (Config::kPlacesEarly)
      return ptx::loadFresh(from);
    else
      return *from;
  }

  __device__ __forceinline__ void fetchPlaces(const Args &args, int token,
                                              int first) {
    long long pair = (long long)token * kPairs + first;
    if (kZero && first == 0)
      own = 0.0f;
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      bool exists = kPairs % kBatch == 0 || first + k < kPairs;
      rows[k] = exists ? ofPlace(args.positions + pair + k) : -1;
      scales[k] = exists ? 1.0f : 0.0f;
      if constexpr (kWeighs)
        if (exists)
          scales[k] = ofPlace(args.topk_weights + pair + k);
      if constexpr (kZero)
        if (exists &&
            ofPlace(args.topk_ids + pair + k) == routing::kIdentityPlace)
          own += scales[k];
    }
  }

  __device__ __forceinline__ void addBatch(const Args &args, int token,
                                           int first, int column,
                                           float (&sums)[kWidth]) {
    Vector16 vectors[kBatch][kPartialVectors];
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
                long long at =
                    ((long long)token * kPairs + first + k) * Config::kHidden +
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

  __device__ __forceinline__ void
  addIdentity(const Args &args, int token, int column, float (&sums)[kWidth]) {
    if constexpr (kZero)
      if (own != 0.0f && addsIdentity(args)) {
        using Input = typename Config::Input;
        // Loads single elements, because the element type of x may be narrower
        // or wider than the type that the thread writes.
        const Input *x =
            args.identity + token * args.identity_row_stride + column;
#pragma unroll
        for (int j = 0; j < kWidth; ++j)
          if (!kTail || column + j < Config::kHidden)
            sums[j] = fmaf(own, toFloat(x[j]), sums[j]);
      }
  }

  __device__ __forceinline__ void store(const Args &args, int token, int column,
                                        float (&sums)[kWidth], Output *row) {
    Vector16 *out = reinterpret_cast<Vector16 *>(row + column);
#pragma unroll
    for (int i = 0; i < kOutputVectors; ++i)
      if (!kTail || column + i * kPerVector<Output> < Config::kHidden) {
        float *values = sums + i * kPerVector<Output>;
        if constexpr (requires { args.residual; })
          if (args.residual) {
            float more[kPerVector<Output>];
            const Output *residual =
                args.residual + (long long)token * Config::kHidden + column;
            unpack<Output>(reinterpret_cast<const Vector16 *>(residual)[i],
                           more);
#pragma unroll
            for (int j = 0; j < kPerVector<Output>; ++j)
              values[j] += more[j];
          }
        out[i] = pack<Output>(values);
      }
  }
};

} // namespace moe
