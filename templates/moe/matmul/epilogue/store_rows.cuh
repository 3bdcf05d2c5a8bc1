//===- store_rows.cuh - token rows to global memory -------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The epilogue of a warpgroup's Fragment whose rows are tokens and whose
// columns are weight rows. It adds the bias, applies the activation and rounds.
// The results pass through shared memory, 8 tokens per warp at a time, so that
// global stores are whole 16-byte chunks of a token's row. No warp waits for
// another warp.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/concepts.cuh"
#include "moe/core/ptx_async.cuh"
#include "moe/core/rank.cuh"
#include "moe/core/types.cuh"
#include "moe/matmul/epilogue/finished.cuh"
#include "moe/matmul/feed/scales.cuh"

namespace moe {

/// Sizes of the staging tiles. Each warp has its own tile.
template <class Config> struct RowStaging {
  using Result = typename Config::Result;
  static constexpr bool kGated = Config::Activation::kGated;
  static constexpr int kTokens = 8;
  /// Result columns of a tile and of the whole result.
  static constexpr int kTileColumns =
      kGated ? Config::Schedule::kTileN / 2 : Config::Schedule::kTileN;
  static constexpr int kColumns = kGated ? Config::kN / 2 : Config::kN;
  /// Number of parts in which a tile's columns are staged. A part is the result
  /// columns of at most 128 weight rows.
  static constexpr int kParts = ceilDiv(int(Config::Schedule::kTileN), 128);
  static constexpr int kStagedColumns = kTileColumns / kParts;
  /// Bytes per row. The padding lets consecutive rows start at different banks.
  /// The four lanes of a quad write 32 or 16 contiguous bytes.
  static constexpr int kRowBytes =
      kStagedColumns * int(sizeof(Result)) + 8 * int(sizeof(Result));
  static constexpr int kWarpBytes = kTokens * kRowBytes;
  static constexpr int kBytes = Config::Schedule::kConsumerWarps * kWarpBytes;
  static_assert(kColumns * int(sizeof(Result)) % 16 == 0,
                "result rows must be whole 16-byte chunks");
};

/// The callable that returns accumulator i plus its bias, for a Fragment whose
/// rows are tokens. Lane i loads the biases of weight rows i, i + 32, ... of
/// the tile; shuffles distribute them. `firstN`, `bias`: see storeRows.
/// Constructed and called by whole warps.
template <class Config, class Fragment> struct RowSums {
  static constexpr int kOfLane = Config::Schedule::kTileN / 32;
  const Fragment &fragment;
  float biases[Config::kBias ? kOfLane : 1];

  template <class Bias>
  __device__ __forceinline__ RowSums(const Fragment &fragment, int lane,
                                     int firstN, const Bias *bias)
      : fragment(fragment) {
    if constexpr (Config::kBias) {
      constexpr bool kTail = Config::kN % Config::Schedule::kTileN != 0;
#pragma unroll
      for (int j = 0; j < kOfLane; ++j) {
        int n = firstN + lane + j * 32;
        bool exists = isBias<Config>(bias) && (!kTail || n < Config::kN);
        biases[j] = exists ? toFloat(bias[storedRow<Config>(n)]) : 0.0f;
      }
    }
  }

  __device__ __forceinline__ float operator()(int i) const {
    float value = fragment.value(i);
    if constexpr (Config::kBias) {
      // The column of the quad's first lane, relative to firstCol.
      int column = i % Fragment::kAtomSize / 4 * 8 + i % 2;
      value += __shfl_sync(0xffffffffu, biases[column / 32],
                           column % 32 + fragment.firstCol);
    }
    return value;
  }
};

/// Stores tokens [0, rows) of the tile. Called by whole warps.
///
///   shared      shared-memory address of the warp's own
///               RowStaging::kWarpBytes bytes
///   lane        lane in the warp
///   firstN      first weight row of the tile
///   bias        the expert's bias (biasOf in moe/core/rank.cuh); null if not
///               Config::kBias
///   result      address of row 0 of the tile, at column 0 of the result
///   activation  the expert's activation
template <class Config, class Fragment, class Bias>
__device__ __forceinline__ void
storeRows(const Fragment &fragment, unsigned shared, int lane, int rows,
          int firstN, const Bias *bias, typename Config::Result *result,
          const typename Config::Activation &activation) {
  static_assert(checkFragment<Fragment>());
  static_assert(!Fragment::kTokensAreColumns,
                "this epilogue needs accumulators whose rows are tokens");
  using S = RowStaging<Config>;
  using Result = typename Config::Result;
  /// A thread's accumulators for 8 result columns and two rows.
  constexpr int kBlockSums = S::kGated ? 8 : 4;
  constexpr int kBlocks = Fragment::kAtomSize / S::kParts / kBlockSums;
  constexpr bool kTail = Config::kN % Config::Schedule::kTileN != 0;

  auto finished = finishedOf<Fragment>(
      activation, RowSums<Config, Fragment>(fragment, lane, firstN, bias));
  unsigned own = shared + unsigned(lane / 4 * S::kRowBytes +
                                   lane % 4 * 2 * int(sizeof(Result)));
  constexpr int kChunks = S::kStagedColumns / kPerVector<Result>;
  constexpr int kRowsAtOnce = 32 / kChunks;
  int chunkRow = lane / kChunks, chunk = lane % kChunks;
  int column = (S::kGated ? firstN / 2 : firstN) + chunk * kPerVector<Result>;
  unsigned from = shared + unsigned(chunkRow * S::kRowBytes + chunk * 16);
#pragma unroll
  for (int half = 0; half < Fragment::kSize / Fragment::kAtomSize * 2; ++half) {
    int first = half / 2 * Fragment::kAtomSize + half % 2 * 2;
    // The row of lane 0, which is the first of the warp's 8 rows.
    int row = fragment.row(first) - lane / 4;
    if (row >= rows)
      break;
#pragma unroll
    for (int part = 0; part < S::kParts; ++part) {
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        int i = first + (part * kBlocks + block) * kBlockSums;
        unsigned at = own + unsigned(block * 8 * int(sizeof(Result)));
        if constexpr (sizeof(Result) == 4)
          ptx::storeSharedPair(at, finished(i), finished(i + 1));
        else
          ptx::storeShared(at, packPair<Result>(finished(i), finished(i + 1)));
      }
      __syncwarp();
      int at = column + part * S::kStagedColumns;
      bool inN = !kTail || at < S::kColumns;
      Result *to = result + (long long)(row + chunkRow) * S::kColumns + at;
#pragma unroll
      for (int token = 0; token < S::kTokens; token += kRowsAtOnce) {
        Vector16 vector;
        ptx::loadShared(from + unsigned(token * S::kRowBytes), vector.words);
        if (inN && row + chunkRow + token < rows)
          *reinterpret_cast<Vector16 *>(to + (long long)token * S::kColumns) =
              vector;
      }
      __syncwarp();
    }
  }
}

} // namespace moe
