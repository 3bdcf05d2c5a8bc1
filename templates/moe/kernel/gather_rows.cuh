//===- gather_rows.cuh - rows by pair or sorted by expert -------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Copies rows of the intermediate between the order of pairs, in which the
// caller sees them, and the order of experts. One CTA copies one row.
//   result[r] = input[rows[r]] for sorted row r. Rows past the last expert's
//     end are not written.
//   With positions: result[p] = input[positions[p]] for pair p, or zeros if the
//     position is -1, because the rank lacks the pair's expert.
//
// Args, in order. The condition for the presence of an argument is in brackets.
//   input: Element [rows, kColumns]
//   rows: int [rows], the pair index of each sorted row [absent with positions]
//   offsets: int [kExperts + 1], the first row of each expert [absent with
//     positions]
//   positions: int [pairs], the sorted row of each pair, or -1 [absent with
//     rows]
//   result: Element [rows, kColumns]
//
// Grid.x: capacity of rows, which is the number of pairs.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/concepts.cuh"
#include "moe/core/pdl.cuh"
#include "moe/core/types.cuh"

namespace moe {

template <class Config> constexpr bool checkGatherRowsConfig() {
  checkCommonConfig<Config>();
  MOE_REQUIRE_TYPE(Config, Element, "element type of the rows");
  MOE_REQUIRE_VALUE(Config, kColumns, "columns per row");
  MOE_REQUIRE_VALUE(Config, kExperts, "experts of this rank, or 0");
  return true;
}

/// Returns the dynamic shared memory of the kernel in bytes, 0.
template <class Config> constexpr int sharedBytes() {
  static_assert(checkGatherRowsConfig<Config>());
  return 0;
}

namespace detail {

/// The largest type of which a row of kBytes bytes is a whole number.
template <int kBytes> auto copiedWord() {
  if constexpr (kBytes % 16 == 0)
    return uint4{};
  else if constexpr (kBytes % 8 == 0)
    return uint2{};
  else if constexpr (kBytes % 4 == 0)
    return 0u;
  else
    return (unsigned short)0;
}

} // namespace detail

template <class Config>
__device__ __forceinline__ void gatherRows(const typename Config::Args &args) {
  static_assert(checkGatherRowsConfig<Config>());
  constexpr int kBytes =
      Config::kColumns * int(sizeof(typename Config::Element));
  using Word = decltype(detail::copiedWord<kBytes>());
  constexpr int kWords = kBytes / int(sizeof(Word));
  awaitPredecessor<Config>();
  const int row = int(blockIdx.x);
  int from;
  if constexpr (requires { args.positions; }) {
    from = args.positions[row];
  } else {
    if (row >= args.offsets[Config::kExperts])
      return;
    from = args.rows[row];
  }
  const Word *input =
      reinterpret_cast<const Word *>(args.input) + (long long)from * kWords;
  Word *result =
      reinterpret_cast<Word *>(args.result) + (long long)row * kWords;
  for (int i = int(threadIdx.x); i < kWords; i += Config::kThreads)
    result[i] = from < 0 ? Word{} : input[i];
}

} // namespace moe
