//===- token_columns.cuh - columns of a token's sum -------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Kernels that add up the rows of a token's experts use this class for the
// columns of one thread. Each thread computes kWidth adjacent columns. Config:
// Args, Partial, Output, kHidden, kPlacesEarly.
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
  /// The number of columns per thread: at least one 16-byte vector of the
  /// narrower type.
  static constexpr int kWidth =
      maximum(kPerVector<Partial>, kPerVector<Output>);
  static constexpr int kPartialVectors = kWidth / kPerVector<Partial>;
  /// The number of threads that one row needs.
  static constexpr int kVectors = ceilDiv(Config::kHidden, kWidth);

  /// Loads a position or a weight. With kPlacesEarly the load bypasses L1:
  /// before griddepcontrol.wait, L1 may hold a stale line of an earlier run.
  template <class T>
  static __device__ __forceinline__ T ofPlace(const T *from) {
    if constexpr (Config::kPlacesEarly)
      return ptx::loadFresh(from);
    else
      return *from;
  }

  /// Returns true if vector `vector` of the columns from `column` on is inside
  /// the row.
  template <class T>
  static __device__ __forceinline__ bool isColumn(int column, int vector) {
    return Config::kHidden % kWidth == 0 ||
           column + vector * kPerVector<T> < Config::kHidden;
  }

  /// Adds args.residual to `sums`, the values of the columns from `column` on,
  /// rounds the results and stores them in args.out.
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
