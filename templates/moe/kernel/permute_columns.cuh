//===- permute_columns.cuh - rows as their expert's weight ------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Columns of each row in the order of its expert's weight, where that has been
// packed in an order of its own. One CTA a sorted row; rows behind the last
// expert's end are not touched.
//
// Args, in order: input [rows, kColumns] or, of tokens, with rows, long long
//   input_row_stride, in a kernel that gathers rows [rows], offsets
//   [kExperts + 1], order [kExperts, kColumns], result [rows, kColumns].
//   result[r, c] = input[r, order[e, c]] of the expert e of sorted row r; in a
//   kernel that gathers result[rows[r], c] = input[rows[r] / kPairs, order[e,
//   c]]. Grid.x: capacity of rows.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/concepts.cuh"
#include "moe/core/pdl.cuh"
#include "moe/core/sorted_rows.cuh"
#include "moe/core/types.cuh"

namespace moe {

template <class Config> constexpr bool checkPermuteColumnsConfig() {
  checkCommonConfig<Config>();
  MOE_REQUIRE_TYPE(Config, Element, "element type of the rows");
  MOE_REQUIRE_VALUE(Config, kColumns, "columns of a row");
  MOE_REQUIRE_VALUE(Config, kExperts, "experts of this rank");
  MOE_REQUIRE_VALUE(Config, kPairs, "pairs of a row of the input");
  static_assert(Config::kColumns % 8 == 0,
                "rows must be whole vectors of 8 elements");
  static_assert(sizeof(typename Config::Element) == 2,
                "elements must have 16 bits");
  return true;
}

/// Dynamic shared memory of the kernel: none.
template <class Config> constexpr int sharedBytes() {
  static_assert(checkPermuteColumnsConfig<Config>());
  return 0;
}

template <class Config>
__device__ __forceinline__ void
permuteColumns(const typename Config::Args &args) {
  static_assert(checkPermuteColumnsConfig<Config>());
  constexpr int kVector = 8;
  awaitPredecessor<Config>();
  const int row = int(blockIdx.x);
  if (row >= args.offsets[Config::kExperts])
    return;
  int from = row, to = row;
  if constexpr (requires { args.rows; }) {
    to = args.rows[row];
    from = to / Config::kPairs;
  }
  const int expert = expertOfRow<Config::kExperts>(args.offsets, row);
  const unsigned short *input = reinterpret_cast<const unsigned short *>(
      args.input + from * args.input_row_stride);
  const int4 *order = reinterpret_cast<const int4 *>(
      args.order + (long long)expert * Config::kColumns);
  uint4 *result =
      reinterpret_cast<uint4 *>(args.result + (long long)to * Config::kColumns);
  for (int v = int(threadIdx.x); v < Config::kColumns / kVector;
       v += Config::kThreads) {
    const int4 low = order[2 * v], high = order[2 * v + 1];
    const auto both = [&](int first, int second) {
      return unsigned(input[first]) | unsigned(input[second]) << 16;
    };
    result[v] = uint4{both(low.x, low.y), both(low.z, low.w),
                      both(high.x, high.y), both(high.z, high.w)};
  }
}

} // namespace moe
