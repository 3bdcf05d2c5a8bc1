//===- swapped_sums.cuh - accumulators of swapped operands ------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The bias of accumulators whose rows are weight rows ("swapped" operands: D =
// weights * tokens^T). A thread then has accumulators for few weight rows and
// many tokens, so it loads the bias of each of its weight rows once.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/gate_up.cuh"
#include "moe/core/rank.cuh"
#include "moe/core/types.cuh"
#include "moe/matmul/epilogue/store_chunk.cuh"

namespace moe {

/// The callable that returns accumulator i plus its bias.
template <class Config, class Fragment, class Bias> struct SwappedSums {
  const Fragment &fragment;
  /// In each row block of MMA instructions (called atom in identifiers), a
  /// thread has accumulators for two weight rows, 8 apart.
  static constexpr int kAtoms = Fragment::kRowAtoms;
  static constexpr int kAtomSize = Fragment::kSize / kAtoms;
  float biases[Config::kBias ? 2 * kAtoms : 1];

  __device__ __forceinline__ SwappedSums(const Fragment &fragment, int firstN,
                                         const Bias *bias)
      : fragment(fragment) {
    if constexpr (Config::kBias) {
#pragma unroll
      for (int j = 0; j < 2 * kAtoms; ++j) {
        int n = firstN + fragment.row(j / 2 * kAtomSize + j % 2 * 2);
        // With a quantized result, the last group of columns may have tiles
        // past the last column.
        constexpr bool kWhole = Config::kN % Config::Schedule::kTileN == 0 &&
                                !quantizesGroups<Config>;
        bool exists = isBias<Config>(bias) && (kWhole || n < Config::kN);
        biases[j] = exists ? toFloat(bias[storedRow<Config>(n)]) : 0.0f;
      }
    }
  }
  __device__ __forceinline__ float operator()(int i) const {
    if constexpr (Config::kBias)
      return fragment.value(i) + biases[i / kAtomSize * 2 + i % 4 / 2];
    else
      return fragment.value(i);
  }
};

} // namespace moe
