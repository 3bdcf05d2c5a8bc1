//===- store.cuh - sums to a result in global memory ------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Written once against the concept Fragment: scale, add the bias, apply
// the activation, round, and pass through shared memory so that global stores
// are whole 16-byte chunks of a row.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/concepts.cuh"
#include "moe/core/ptx.cuh"
#include "moe/core/types.cuh"
#include "moe/epilogue/finished.cuh"
#include "moe/epilogue/store_chunk.cuh"
#include "moe/epilogue/store_emulated.cuh"
#include "moe/quant/scales.cuh"

namespace moe {

/// Sizes of the staging tile of a Config.
template <class Config> struct Staging {
  using Result = typename Config::Result;
  static constexpr bool kGated = Config::Activation::kGated;
  /// Result columns of a CTA's tile and of the whole result.
  static constexpr int kTileColumns =
      kGated ? Config::Schedule::kTileN / 2 : Config::Schedule::kTileN;
  static constexpr int kColumns = kGated ? Config::kN / 2 : Config::kN;
  /// A row and one chunk more, so that rows begin in other banks.
  static constexpr int kRowBytes = kTileColumns * int(sizeof(Result)) + 16;
  static constexpr int kBytes = Config::Schedule::kTileM * kRowBytes;
  static_assert(kTileColumns * int(sizeof(Result)) % 16 == 0 &&
                    kColumns * int(sizeof(Result)) % 16 == 0,
                "result rows must be whole 16-byte chunks");
};

/// Stores rows [0, rows) of the tile. result: row 0 of the tile, column 0 of
/// the result. firstN: first weight row of the tile. bias: of the expert, or
/// null without Config::kBias. activation: of the expert. scale(i, n): what sum
/// i of weight row n is multiplied by (Scales::ofResult). inverse: see
/// inverseOfScale. Called by all threads; shared: Staging::kBytes that nobody
/// reads any more.
template <class Config, class Fragment, class Bias, class Stored, class Scale>
__device__ __forceinline__ void
storeTile(const Fragment &fragment, unsigned shared, int rows, int firstN,
          const Bias *bias, const typename Config::Activation &activation,
          Stored *result, float inverse, Scale scale) {
  static_assert(checkFragment<Fragment>());
  static_assert(!Fragment::kSwapped, "this epilogue takes tokens as rows");
  using S = Staging<Config>;
  using Result = typename Config::Result;
  using Layout = ScaleLayout<Config>;

  auto sum = [&](int i) {
    float value = fragment.value(i);
    if constexpr (Config::kBias || (Layout::kScaled && !Layout::kByGroup)) {
      int n = firstN + fragment.col(i);
      if (Config::kN % Config::Schedule::kTileN == 0 || n < Config::kN) {
        if constexpr (Layout::kScaled && !Layout::kByGroup)
          value *= scale(i, n);
        if constexpr (Config::kBias)
          value += toFloat(bias[storedRow<Config>(n)]);
      }
    }
    return value;
  };
  auto finished = finishedOf<Fragment>(activation, sum);
#pragma unroll
  for (int i = 0; i < Fragment::kSize; i += Fragment::kRun) {
    if (S::kGated && !Fragment::isGate(i))
      continue;
    int row = fragment.row(i), col = fragment.col(i);
    if (row >= rows)
      continue;
    int out = S::kGated ? col / 16 * 8 + col % 8 : col;
    unsigned to =
        shared + unsigned(row * S::kRowBytes + out * int(sizeof(Result)));
    if constexpr (sizeof(Result) == 4) {
#pragma unroll
      for (int j = 0; j < Fragment::kRun; ++j)
        ptx::storeShared(to + j * 4, __float_as_uint(finished(i + j)));
    } else if constexpr (Fragment::kRun == 1) {
      ptx::storeShared(to, fromFloat<Result>(finished(i)).bits);
    } else {
      static_assert(Fragment::kRun == 2);
      ptx::storeShared(to, packPair<Result>(finished(i), finished(i + 1)));
    }
  }
  __syncthreads();
  int firstColumn = S::kGated ? firstN / 2 : firstN;
  if constexpr (emulatesResult<Config>) {
    storeEmulated<Config, S>(shared, rows, firstColumn, result, inverse);
  } else {
    constexpr int kChunks = S::kTileColumns / kPerVector<Result>;
#pragma unroll 4
    for (int i = int(threadIdx.x); i < rows * kChunks; i += Config::kThreads) {
      int row = i / kChunks, chunk = i % kChunks;
      int column = firstColumn + chunk * kPerVector<Result>;
      if (S::kColumns % S::kTileColumns == 0 || column < S::kColumns) {
        Vector16 vector;
        ptx::loadShared(shared + unsigned(row * S::kRowBytes + chunk * 16),
                        vector.words);
        storeChunk<Result>(
            vector, result + (long long)row * S::kColumns + column, inverse);
      }
    }
  }
}

} // namespace moe
