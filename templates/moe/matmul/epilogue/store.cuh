//===- store.cuh - accumulators to global memory ----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The epilogue of grid engines, for any Fragment (moe/core/concepts.cuh). It
// applies the scales, the bias and the activation, and rounds. The results pass
// through shared memory, so that global stores are whole 16-byte chunks of a
// row. If the operands are swapped (rows are weight rows), results are
// transposed on their way to shared memory.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/concepts.cuh"
#include "moe/core/ptx.cuh"
#include "moe/core/rank.cuh"
#include "moe/core/types.cuh"
#include "moe/matmul/epilogue/finished.cuh"
#include "moe/matmul/epilogue/store_chunk.cuh"
#include "moe/matmul/epilogue/store_emulated.cuh"
#include "moe/matmul/epilogue/swapped_sums.cuh"
#include "moe/matmul/feed/scales.cuh"

namespace moe {

/// Sizes of a CTA's staging tile.
template <class Config> struct Staging {
  using Result = typename Config::Result;
  static constexpr bool kGated = Config::Activation::kGated;
  /// Result columns of a CTA's tile and of the whole result.
  static constexpr int kTileColumns =
      kGated ? Config::Schedule::kTileN / 2 : Config::Schedule::kTileN;
  static constexpr int kColumns = kGated ? Config::kN / 2 : Config::kN;
  /// Bytes per row. The padding of one 16-byte chunk lets consecutive rows
  /// start at different banks.
  static constexpr int kRowBytes = kTileColumns * int(sizeof(Result)) + 16;
  static constexpr int kBytes = Config::Schedule::kTileM * kRowBytes;
  static_assert(kTileColumns * int(sizeof(Result)) % 16 == 0 &&
                    kColumns * int(sizeof(Result)) % 16 == 0,
                "result rows must be whole 16-byte chunks");
};

namespace detail {

/// Writes the results of rows [0, rows) to the staging tile, for accumulators
/// whose rows are tokens. storeTile documents the parameters.
template <class Config, class Fragment, class Bias, class Scale>
__device__ __forceinline__ void
stageTile(const Fragment &fragment, unsigned shared, int rows, int firstN,
          const Bias *bias, const typename Config::Activation &activation,
          Scale scale) {
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
          if (isBias<Config>(bias))
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
}

/// Like stageTile, for accumulators whose columns are tokens.
template <class Config, class Fragment, class Bias>
__device__ __forceinline__ void
stageSwapped(const Fragment &fragment, unsigned shared, int rows, int firstN,
             const Bias *bias, const typename Config::Activation &activation) {
  using S = Staging<Config>;
  using Result = typename Config::Result;
  static_assert(!ScaleLayout<Config>::kScaled,
                "swapped operands must be scaled before they are multiplied");
  auto finished = finishedOf<Fragment>(
      activation, SwappedSums<Config, Fragment, Bias>(fragment, firstN, bias));
  int inBlock = int(threadIdx.x) % 32 / 4, pair = int(threadIdx.x) % 4 * 2;
  // A thread's four consecutive accumulators belong to one block of 16 weight
  // rows by 8 tokens.
#pragma unroll
  for (int i = 0; i < Fragment::kSize; i += 4) {
    int token = fragment.col(i) - pair;
    if (token >= rows)
      continue;
    int row = fragment.row(i) - inBlock;
    unsigned to =
        shared + unsigned((S::kGated ? row / 2 : row) * int(sizeof(Result)));
#pragma unroll
    for (int half = 0; half < (S::kGated ? 2 : 4); half += 2) {
      unsigned begin = to + unsigned(half * 4 * int(sizeof(Result)));
      float first = finished(i + half), second = finished(i + half + 1);
      if constexpr (sizeof(Result) == 4) {
        begin += unsigned((token + pair) * S::kRowBytes + inBlock * 4);
        ptx::storeShared(begin, __float_as_uint(first));
        ptx::storeShared(begin + unsigned(S::kRowBytes),
                         __float_as_uint(second));
      } else {
        unsigned turned = ptx::transpose(packPair<Result>(first, second));
        ptx::storeShared(
            begin + unsigned((token + inBlock) * S::kRowBytes + pair * 2),
            turned);
      }
    }
  }
}

} // namespace detail

/// Stores rows [0, rows) of the tile. Called by all threads of the CTA.
///
///   shared        shared-memory address of Staging::kBytes bytes, which no
///                 thread reads any more
///   firstN        first weight row of the tile
///   bias          the expert's bias; null if not Config::kBias
///   activation    the expert's activation
///   result        address of row 0 of the tile, at column 0 of the result
///   inverse       see inverseOfScale
///   scale(i, n)   factor of accumulator i in weight row n (Scales::ofResult)
///   resultScales  address of the scales of row 0 of the tile, if the result is
///                 codes (quantized values)
template <class Config, class Fragment, class Bias, class Stored, class Scale,
          class StoredScale = float>
__device__ __forceinline__ void
storeTile(const Fragment &fragment, unsigned shared, int rows, int firstN,
          const Bias *bias, const typename Config::Activation &activation,
          Stored *result, float inverse, Scale scale,
          [[maybe_unused]] StoredScale *resultScales = nullptr) {
  static_assert(checkFragment<Fragment>());
  using S = Staging<Config>;
  using Result = typename Config::Result;
  if constexpr (Fragment::kTokensAreColumns)
    detail::stageSwapped<Config>(fragment, shared, rows, firstN, bias,
                                 activation);
  else
    detail::stageTile<Config>(fragment, shared, rows, firstN, bias, activation,
                              scale);
  __syncthreads();
  int firstColumn = S::kGated ? firstN / 2 : firstN;
  if constexpr (emulatesResult<Config>) {
    storeEmulated<Config, S, Config::kThreads>(int(threadIdx.x), shared, rows,
                                               firstColumn, result, inverse,
                                               resultScales);
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
