//===- tensor_memory.cuh - accumulators in tensor memory --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The f32 accumulators of 128 weight rows by a tile's tokens, in tensor memory.
// A warp can access only 32 of the 128 lanes (rows) of tensor memory. After all
// MMAs have completed, each warp loads its 32 rows into registers, 16 rows at a
// time. The registers then have the layout of a warpgroup's Fragment
// (moe/matmul/accumulator/warpgroup.cuh), so the epilogues are the same as for
// wgmma. Promoted accumulators are loaded after each pipeline stage.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx_tcgen05.cuh"
#include "moe/matmul/accumulator/warpgroup.cuh"

namespace moe::mma {

template <int kTokens, bool kPromoted>
struct TensorMemorySums
    : WarpgroupSums<2, kTokens, kPromoted, /*kTokensInColumns=*/true,
                    /*kRowsApart=*/16> {
  static_assert(kTokens % 16 == 0,
                "accumulators are loaded 16 columns at a time");
  /// Tensor-memory columns that a warpgroup allocates. Promoted accumulators
  /// are double-buffered: MMAs write one buffer while the warps read the other
  /// buffer.
  static constexpr int kSumColumns = kTokens * (kPromoted ? 2 : 1);

  /// Loads the accumulators of the first `tokens` columns, rounded up to a
  /// multiple of 16, and waits for the loads. The other columns keep the zeros
  /// from begin(). Called by a warpgroup. `address`: tensor-memory address of
  /// the tile's first column.
  __device__ __forceinline__ void read(unsigned address, int tokens) {
#pragma unroll
    for (int atom = 0; atom < this->kRowAtoms; ++atom)
      load(this->sums[kPromoted ? 0 : atom], address, atom, tokens);
    ptx::waitForSums();
    this->finish();
  }

  /// Loads the accumulators of piece `piece`, which is half of the warpgroup's
  /// rows (16 rows per warp), and waits for the loads. Used if kPromoted.
  __device__ __forceinline__ void readPiece(unsigned address, int piece,
                                            int tokens) {
    load(this->sums[0], address, piece, tokens);
    ptx::waitForSums();
    this->finish();
  }

private:
  static __device__ __forceinline__ void
  load(float (&to)[kTokens / 2], unsigned address, int atom, int tokens) {
    const int warp = ptx::threadIndex() % 128 / 32;
    const unsigned lane = unsigned(warp * 32 + atom * 16) << 16;
#pragma unroll
    for (int column = 0; column < kTokens; column += 16)
      if (column < tokens)
        ptx::loadSums(&to[column / 2], address + lane + unsigned(column));
  }
};

} // namespace moe::mma
