//===- pack_order.cuh - columns in the order of their groups ----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The order of a weight's columns from source [experts, kColumns], the group of
// each: the columns of the first group, of the second and so on, inside a group
// ascending. Groups have kGroup columns, the last one what is left; a column
// too many is left out, and one too few is column 0. One CTA an expert.
//
// Args, in order: source, destination, int first_expert.
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
  MOE_REQUIRE_VALUE(Config, kGroup, "columns of a group");
  static_assert(Config::kColumns > 0 && Config::kGroup > 0,
                "there must be columns and groups");
  return true;
}

/// Dynamic shared memory: none.
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
  // A thread finds the columns of a group; all of a warp read one address.
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
