//===- tensor_memory.cuh - sums of a warpgroup in tensor memory -*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The f32 sums of 128 weight rows by the tokens of a tile. A multiply adds to
// them in tensor memory, where a warp reaches 32 lanes. When all multiplies
// have ended each warp reads the sums of its 32 rows, 16 rows at a time, and
// then it is the Fragment of a warpgroup (warpgroup.cuh). Sums that are
// promoted are read after each stage.
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
  /// Columns of a warpgroup: one stage is multiplied while another is read.
  static constexpr int kSumColumns = kTokens * (kPromoted ? 2 : 1);

  /// Reads the sums of the first `tokens` columns; the others are zero. Called
  /// by a warpgroup. address: of the tile's first column.
  __device__ __forceinline__ void read(unsigned address, int tokens) {
#pragma unroll
    for (int atom = 0; atom < this->kRowAtoms; ++atom)
      load(this->sums[kPromoted ? 0 : atom], address, atom, tokens);
    ptx::waitForSums();
    this->finish();
  }

  /// kPromoted: reads those of one piece.
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
