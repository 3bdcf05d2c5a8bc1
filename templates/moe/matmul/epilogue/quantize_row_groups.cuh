//===- quantize_row_groups.cuh - sums of token rows to e4m3 -----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The quantizing epilogue of a Fragment whose rows are tokens, for results with
// one scale per token and 128 columns. The four lanes of a quad have all
// columns of a token's group, so two shuffles yield the maximum that determines
// the scale. The codes (quantized values) pass through shared memory, 8 tokens
// per warp at a time, so that a global store writes contiguous bytes of a
// group. No warp waits for another warp.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx_async.cuh"
#include "moe/core/types.cuh"
#include "moe/math/scaling.cuh"
#include "moe/matmul/epilogue/finished.cuh"
#include "moe/matmul/epilogue/store_rows.cuh"

namespace moe {

/// Sizes of the staging tiles. Each warp has its own tile, which holds the
/// codes of 8 tokens for one group.
template <class Config> struct RowGroupStaging {
  static constexpr int kParts = Config::Activation::kGated ? 2 : 1;
  static constexpr int kTokens = 8;
  static constexpr int kColumns = Config::kN / kParts;
  static constexpr int kGroups = ceilDiv(kColumns, 128);
  /// Number of groups per tile.
  static constexpr int kTileGroups = Config::Schedule::kTileN / kParts / 128;
  /// Bytes per row. The padding lets consecutive rows start at different banks.
  static constexpr int kRowBytes = 128 + 16;
  static constexpr int kWarpBytes = kTokens * kRowBytes;
  static constexpr int kBytes = Config::Schedule::kConsumerWarps * kWarpBytes;
  static_assert(kTileGroups >= 1,
                "a tile must have whole groups of 128 columns");
  static_assert(kColumns % 16 == 0, "rows must be whole 16-byte chunks");
};

/// Quantizes tokens [0, rows) of the tile and stores codes and scales. Called
/// by whole warps. `shared`: the warp's own RowGroupStaging::kWarpBytes bytes.
/// `lane`, `firstN`, `bias`, `activation`: see storeRows. `data`, `scale`:
/// address of row 0 of the tile, at column 0 and at group 0.
template <class Config, class Fragment, class Bias>
__device__ __forceinline__ void
storeRowGroups(const Fragment &fragment, unsigned shared, int lane, int rows,
               int firstN, const Bias *bias, e4m3 *data, float *scale,
               const typename Config::Activation &activation) {
  static_assert(!Fragment::kTokensAreColumns,
                "this epilogue needs accumulators whose rows are tokens");
  using S = RowGroupStaging<Config>;
  /// kBlockSums: a thread's accumulators for 8 result columns and two rows.
  /// kBlocks: blocks of 8 columns per group.
  constexpr int kBlockSums = 4 * S::kParts;
  constexpr int kBlocks = 128 / 8;
  auto finished = finishedOf<Fragment>(
      activation, RowSums<Config, Fragment>(fragment, lane, firstN, bias));
  unsigned own = shared + unsigned(lane / 4 * S::kRowBytes + lane % 4 * 2);
  unsigned from = shared + unsigned(lane / 8 * S::kRowBytes + lane % 8 * 16);
#pragma unroll
  for (int half = 0; half < Fragment::kSize / Fragment::kAtomSize * 2; ++half) {
    int first = half / 2 * Fragment::kAtomSize + half % 2 * 2;
    // The row of lane 0, which is the first of the warp's 8 rows.
    int row = fragment.row(first) - lane / 4;
    if (row >= rows)
      break;
#pragma unroll
    for (int part = 0; part < S::kTileGroups; ++part) {
      int group = firstN / (128 * S::kParts) + part;
      int column = group * 128;
      float values[2 * kBlocks], largest = 0.0f;
#pragma unroll
      for (int i = 0; i < 2 * kBlocks; ++i) {
        int block = part * kBlocks + i / 2;
        // Columns past the end do not affect the scale.
        bool exists =
            S::kColumns % 128 == 0 || column + i / 2 * 8 < S::kColumns;
        values[i] =
            exists ? finished(first + block * kBlockSums + i % 2) : 0.0f;
        largest = fmaxf(largest, fabsf(values[i]));
      }
#pragma unroll
      for (int distance = 1; distance < 4; distance *= 2)
        largest =
            fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, distance));
      float ofGroup = Config::Scaling::scale(largest);
      quant::Divisor divisor(ofGroup);
#pragma unroll
      for (int block = 0; block < kBlocks; ++block)
        ptx::storeShared(own + unsigned(block * 8),
                         (unsigned short)ptx::e4m3Pair(
                             divisor.quotient(values[2 * block]),
                             divisor.quotient(values[2 * block + 1])));
      if (lane % 4 == 0 && row + lane / 4 < rows && group < S::kGroups)
        scale[(long long)(row + lane / 4) * S::kGroups + group] = ofGroup;
      __syncwarp();
      bool inN = S::kColumns % 128 == 0 || column + lane % 8 * 16 < S::kColumns;
      if (S::kTileGroups > 1)
        inN = inN && group < S::kGroups;
      e4m3 *to = data + (long long)(row + lane / 8) * S::kColumns + column +
                 lane % 8 * 16;
#pragma unroll
      for (int token = 0; token < S::kTokens; token += 4) {
        Vector16 vector;
        ptx::loadShared(from + unsigned(token * S::kRowBytes), vector.words);
        if (inN && row + lane / 8 + token < rows)
          *reinterpret_cast<Vector16 *>(to + (long long)token * S::kColumns) =
              vector;
      }
      __syncwarp();
    }
  }
}

} // namespace moe
