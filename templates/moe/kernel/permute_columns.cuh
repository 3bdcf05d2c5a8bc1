//===- permute_columns.cuh - columns in their expert's order ----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Permutes the columns of each row into the column order of the weight of the
// row's expert, for weights packed with act-order. One CTA permutes one sorted
// row. Rows past the last expert's end are not written.
//   result[r, c] = input[r, order[e, c]] for sorted row r of expert e
//   If the kernel gathers: result[rows[r], c] = input[rows[r] / kPairs,
//     order[e, c]]
//
// Args, in order. The condition for the presence of an argument is in brackets.
//   input: Element [rows, kColumns], or [tokens, kColumns] if the kernel
//     gathers
//   long long input_row_stride: in elements
//   rows: int [rows], the pair index of each sorted row [if the kernel gathers]
//   offsets: int [kExperts + 1], the first row of each expert
//   order: int [kExperts, kColumns]
//   result: Element [rows, kColumns]
//
// Grid.x: capacity of rows.
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
  MOE_REQUIRE_VALUE(Config, kColumns, "columns per row");
  MOE_REQUIRE_VALUE(Config, kExperts, "experts of this rank");
  MOE_REQUIRE_VALUE(Config, kPairs, "number of pairs per row of the input");
  static_assert(Config::kColumns % 8 == 0,
                "rows must be whole vectors of 8 elements");
  static_assert(sizeof(typename Config::Element) == 2,
                "elements must have 16 bits");
  return true;
}

/// Returns the dynamic shared memory of the kernel in bytes, 0.
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
