//===- token_columns.cuh - columns of a token's sum -------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Kernels that add up the rows of a token's experts give each thread some
// neighboring columns. Config: Args, Partial, Output, kHidden, kPlacesEarly.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/pdl.cuh"
#include "moe/core/types.cuh"

namespace moe {

template <class Config> struct TokenColumns {
  using Args = typename Config::Args;
  using Partial = typename Config::Partial;
  using Output = typename Config::Output;
  /// Columns of a thread: one 16-byte vector of the narrower type, at least.
  static constexpr int kWidth =
      maximum(kPerVector<Partial>, kPerVector<Output>);
  static constexpr int kPartialVectors = kWidth / kPerVector<Partial>;
  /// Threads that a row takes.
  static constexpr int kVectors = ceilDiv(Config::kHidden, kWidth);

  /// Before the wait for the predecessor, the L1 cache may still hold a line of
  /// an earlier run.
  template <class T>
  static __device__ __forceinline__ T ofPlace(const T *from) {
    if constexpr (Config::kPlacesEarly)
      return ptx::loadFresh(from);
    else
      return *from;
  }

  /// Whether the row has a vector of a thread's columns.
  template <class T>
  static __device__ __forceinline__ bool isColumn(int column, int vector) {
    return Config::kHidden % kWidth == 0 ||
           column + vector * kPerVector<T> < Config::kHidden;
  }

  /// Writes the sums from `column` on, + args.residual.
  static __device__ __forceinline__ void
  store(const Args &args, int token, int column, float (&sums)[kWidth]) {
    long long at = (long long)token * Config::kHidden + column;
    Vector16 *out = reinterpret_cast<Vector16 *>(args.out + at);
#pragma unroll
    for (int i = 0; i < kWidth / kPerVector<Output>; ++i)
      if (isColumn<Output>(column, i)) {
        float *values = sums + i * kPerVector<Output>;
        if constexpr (requires { args.residual; })
          if (args.residual) {
            float more[kPerVector<Output>];
            unpack<Output>(
                reinterpret_cast<const Vector16 *>(args.residual + at)[i],
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
