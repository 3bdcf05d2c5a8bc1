//===- pack_order.cuh - columns in the order of their groups ----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Computes the column order of a weight with act-order. source [experts,
// kColumns] is the index of each column's group. destination [experts,
// kColumns] lists the columns of group 0, then the columns of group 1, and so
// on, in ascending order within a group. A group has kGroup columns; the last
// group has fewer if kGroup does not divide kColumns. If source assigns more
// columns to a group, the extra columns are dropped. If it assigns fewer, the
// group is filled with column 0. One CTA per expert.
//
// Args, in order:
//   source: int [experts, kColumns]
//   destination: int [experts, kColumns]
//   int first_expert: the expert of CTA 0
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/concepts.cuh"
#include "moe/core/pdl.cuh"
#include "moe/core/types.cuh"

namespace moe {

template <class Config> constexpr bool checkOrderConfig() {
  checkCommonConfig<Config>();
  MOE_REQUIRE_VALUE(Config, kColumns, "columns of an expert's weight");
  MOE_REQUIRE_VALUE(Config, kGroup, "columns per group");
  static_assert(Config::kColumns > 0 && Config::kGroup > 0,
                "kColumns and kGroup must be positive");
  return true;
}

/// Returns the dynamic shared memory of the kernel in bytes, 0.
template <class Config> constexpr int sharedBytes() {
  static_assert(checkOrderConfig<Config>());
  return 0;
}

template <class Config>
__device__ __forceinline__ void packOrder(const typename Config::Args &args) {
  static_assert(checkOrderConfig<Config>());
  awaitPredecessor<Config>();
  constexpr int kGroups = ceilDiv(Config::kColumns, Config::kGroup);
  const long long expert =
      (long long)(args.first_expert + int(blockIdx.x)) * Config::kColumns;
  const int *source = args.source + expert;
  int *destination = args.destination + expert;
  // A thread collects the columns of one group. All lanes of a warp read the
  // same address, so the loads are broadcasts.
  for (int group = int(threadIdx.x); group < kGroups;
       group += Config::kThreads) {
    int next = group * Config::kGroup;
    const int end = min(next + Config::kGroup, Config::kColumns);
    for (int column = 0; column < Config::kColumns; ++column)
      if (source[column] == group && next < end)
        destination[next++] = column;
    for (; next < end; ++next)
      destination[next] = 0;
  }
}

} // namespace moe
