//===- tensor_memory.cuh - accumulators in tensor memory --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The f32 accumulators of 128 weight rows by the tokens of a tile, in tensor
// memory. A warp can access only its 32 lanes of tensor memory. After all MMAs
// have completed, each warp loads the accumulators of its 32 rows, 16 rows at a
// time. The object then is a warpgroup's Fragment
// (moe/matmul/accumulator/warpgroup.cuh). Promoted accumulators are loaded
// after each pipeline stage.
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
  static_assert(kTokens % 16 == 0, "sums are read 16 columns at a time");
  /// Tensor-memory columns of a warpgroup. Promoted accumulators are
  /// double-buffered: MMAs fill one buffer while the other one is read.
  static constexpr int kSumColumns = kTokens * (kPromoted ? 2 : 1);

  /// Loads the accumulators of the first `tokens` columns and waits for them.
  /// Rounds `tokens` up to a multiple of 16 and leaves the other columns
  /// unchanged; begin() made them zero. Called by a warpgroup. `address`:
  /// tensor-memory address of the tile's first column.
  __device__ __forceinline__ void read(unsigned address, int tokens) {
#pragma unroll
    for (int atom = 0; atom < this->kRowAtoms; ++atom)
      load(this->sums[kPromoted ? 0 : atom], address, atom, tokens);
    ptx::waitForSums();
    this->finish();
  }

  /// Loads the accumulators of one piece and waits for them. For kPromoted.
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
