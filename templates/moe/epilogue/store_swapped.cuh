//===- store_swapped.cuh - sums of swapped operands to memory ---*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The epilogue of a Fragment whose rows are weight rows and whose columns are
// tokens: dequantize, add the bias, apply the activation, round, and turn over
// in shared memory, some tokens at a time, so that global stores are whole
// 16-byte chunks of a token's row. Each warpgroup stores its own weight rows.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/concepts.cuh"
#include "moe/core/ptx_async.cuh"
#include "moe/core/types.cuh"
#include "moe/epilogue/store.cuh"

namespace moe {

/// Sizes of one warpgroup's staging tile of a Config.
template <class Config> struct SwappedStaging {
  using Result = typename Config::Result;
  static constexpr bool kGated = Config::Activation::kGated;
  static constexpr int kRows = Config::Mma::kRows;
  /// Result columns of a warpgroup, of a CTA's tile and of the whole result.
  static constexpr int kOwnColumns = kGated ? kRows / 2 : kRows;
  static constexpr int kColumns = kGated ? Config::kN / 2 : Config::kN;
  /// Tokens that pass through at a time.
  static constexpr int kTokens =
      minimum(Config::Schedule::kTileM, sizeof(Result) == 4 ? 32 : 64);
  /// A row and one chunk more, so that rows begin in other banks.
  static constexpr int kRowBytes = kOwnColumns * int(sizeof(Result)) + 16;
  static constexpr int kBytes = kTokens * kRowBytes;
  static_assert(kColumns * int(sizeof(Result)) % 16 == 0,
                "result rows must be whole 16-byte chunks");
};

/// Stores tokens [0, rows) of the tile. result: row 0 of the tile, column 0 of
/// the result. firstN: first weight row of the tile. bias: of the expert, or
/// null without Config::kBias. Called by a warpgroup; thread: in it; shared:
/// SwappedStaging::kBytes of its own; barrier: a named barrier of its own.
template <class Config, class Fragment, class Bias>
__device__ __forceinline__ void
storeSwapped(const Fragment &fragment, unsigned shared, int barrier, int thread,
             int warpgroup, int rows, int firstN, const Bias *bias,
             typename Config::Result *result) {
  static_assert(checkFragment<Fragment>());
  static_assert(Fragment::kSwapped, "this epilogue takes tokens as columns");
  using S = SwappedStaging<Config>;
  using Result = typename Config::Result;
  using Activation = typename Config::Activation;
  using Quant = typename Config::Quant;
  constexpr int kBlocks = Fragment::kSize / 4; ///< of 8 tokens
  constexpr int kBlocksAtATime = minimum(kBlocks, S::kTokens / 8);
  constexpr int kChunks = S::kOwnColumns / kPerVector<Result>;
  int lane = thread % 32, warp = thread / 32;

  // A thread's sums belong to two weight rows, 8 apart.
  float biases[2] = {0.0f, 0.0f};
  if constexpr (Config::kBias) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      int n = firstN + fragment.row(half * 2);
      if (Config::kN % Config::Schedule::kTileN == 0 || n < Config::kN)
        biases[half] =
            toFloat(bias[biasIndex<Config::kN, Config::kInterleave>(n)]);
    }
  }
  auto sum = [&](int i) {
    return Quant::dequantize(fragment.value(i)) + biases[i % 4 / 2];
  };
  auto finished = [&](int i) {
    if constexpr (S::kGated)
      return Activation::apply(sum(i), sum(Fragment::partner(i)));
    else
      return Activation::apply(sum(i));
  };
  // Where this warp's columns begin in the staging tile.
  unsigned own =
      shared + unsigned(warp * (S::kOwnColumns / 4) * int(sizeof(Result)));
  int firstColumn =
      (S::kGated ? firstN / 2 : firstN) + warpgroup * S::kOwnColumns;

#pragma unroll
  for (int first = 0; first < kBlocks; first += kBlocksAtATime) {
    if (first * 8 >= rows)
      break;
    // Nobody reads the tokens before these any more.
    ptx::synchronize(barrier, 128);
#pragma unroll
    for (int j = 0; j < kBlocksAtATime; j += 2) {
      int i = (first + j) * 4;
      if (first + j >= kBlocks)
        break;
      if constexpr (sizeof(Result) == 4) {
#pragma unroll
        for (int v = 0; v < 8; ++v) {
          if (S::kGated && !Fragment::isGate(i + v))
            continue;
          int token = fragment.col(i + v) - first * 8;
          int column = lane / 4 + v % 4 / 2 * 8;
          ptx::storeShared(own + unsigned(token * S::kRowBytes + column * 4),
                           __float_as_uint(finished(i + v)));
        }
      } else if constexpr (S::kGated) {
        unsigned words[2] = {
            packPair<Result>(finished(i), finished(i + 1)),
            packPair<Result>(finished(i + 4), finished(i + 5))};
        int token = j * 8 + lane % 16;
        ptx::storeTransposed(own + unsigned(token * S::kRowBytes), words);
      } else {
        unsigned words[4] = {
            packPair<Result>(finished(i), finished(i + 1)),
            packPair<Result>(finished(i + 2), finished(i + 3)),
            packPair<Result>(finished(i + 4), finished(i + 5)),
            packPair<Result>(finished(i + 6), finished(i + 7))};
        int token = j * 8 + lane % 8 + lane / 16 * 8;
        ptx::storeTransposed(
            own + unsigned(token * S::kRowBytes + lane / 8 % 2 * 16), words);
      }
    }
    ptx::synchronize(barrier, 128);
    int tokens = min(rows - first * 8, kBlocksAtATime * 8);
#pragma unroll 2
    for (int i = thread; i < tokens * kChunks; i += 128) {
      int token = i / kChunks, chunk = i % kChunks;
      int column = firstColumn + chunk * kPerVector<Result>;
      if (Config::kN % Config::Schedule::kTileN == 0 || column < S::kColumns) {
        Vector16 vector;
        ptx::loadShared(shared + unsigned(token * S::kRowBytes + chunk * 16),
                        vector.words);
        *reinterpret_cast<Vector16 *>(
            result + (long long)(first * 8 + token) * S::kColumns + column) =
            vector;
      }
    }
  }
}

} // namespace moe
