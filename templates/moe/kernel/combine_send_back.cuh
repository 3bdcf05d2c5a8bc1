//===- combine_send_back.cuh - combines into the tokens' ranks --*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Combines the tokens of all ranks that this rank owns (moe/math/owners.cuh),
// like moe/kernel/combine.cuh. Each output row is written directly to the
// address to which moe/kernel/send_back.cuh would copy it, in the window of the
// token's rank. The row is not stored in local memory first.
//
// Args, in order. The condition for the presence of an argument is in brackets.
// "In the window" is an address in the memory that ranks share
// (moe/exchange/windows.cuh).
//   partials: Partial [rows, kHidden]
//   positions: int [tokens, kPairs], the sorted row of each pair, or -1
//   topk_weights: float [tokens, kPairs] [absent if weights multiply x: each
//     weight is then 1]
//   topk_ids: int [tokens, kPairs]
//   int tokens: the tokens of all ranks together
//   back: Output [tokens / kRanks, mostOwners, kHidden], in the window
//   exchange_words: the start of the window
//   exchange_counter: 0 on entry and on exit
//   peers, status, int rank: see moe/exchange/meet.cuh
//
// Grid.x: any. CTAs loop over the kColumnBlocks column blocks of each token.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/combine/token_sum.cuh"
#include "moe/core/concepts.cuh"
#include "moe/core/pdl.cuh"
#include "moe/exchange/meet.cuh"

namespace moe {

template <class Config> constexpr bool checkCombineSendBackConfig() {
  checkCommonConfig<Config>();
  MOE_REQUIRE_TYPE(Config, Partial, "element type of the partial sums");
  MOE_REQUIRE_TYPE(Config, Output,
                   "element type of the partial sums that are sent");
  MOE_REQUIRE_VALUE(Config, kRanks, "ranks that tokens come from");
  MOE_REQUIRE_VALUE(Config, kExperts,
                    "experts that are distributed over ranks, or 0");
  MOE_REQUIRE_VALUE(Config, kPairs, "(token, expert) pairs per token");
  MOE_REQUIRE_VALUE(Config, kHidden, "columns");
  MOE_REQUIRE_VALUE(Config, kColumnBlocks, "CTAs that share a token");
  MOE_REQUIRE_VALUE(
      Config, kPlacesEarly,
      "positions and weights are final before the predecessor launch ends");
  return true;
}

/// Returns the dynamic shared memory of the kernel in bytes, 0.
template <class Config> constexpr int sharedBytes() {
  static_assert(checkCombineSendBackConfig<Config>());
  return 0;
}

template <class Config>
__device__ __forceinline__ void
combineSendBack(const typename Config::Args &args) {
  static_assert(checkCombineSendBackConfig<Config>());
  constexpr int kOwners =
      mostOwners(Config::kExperts, Config::kRanks, Config::kPairs);

  exchange::Meeting<Config> meeting(args, ExchangePhase::SendBack);
  const exchange::Windows windows(args.peers, args.exchange_words);
  const int tokens = args.tokens, own = tokens / Config::kRanks;
  const int items = tokens * Config::kColumnBlocks;
  RankSet<Config::kRanks> owners;
  TokenSum<Config> sum;
  int token = 0;
  auto fetch = [&](int item) {
    token = exchange::tokenFromNext(item / Config::kColumnBlocks, args.rank,
                                    own, tokens);
    owners = exchange::ownersOf<Config>(args.topk_ids, token);
    sum.fetch(args, token);
  };
  int item = int(blockIdx.x);
  if constexpr (Config::kPlacesEarly)
    if (item < items)
      fetch(item);
  if constexpr (Config::kProgrammatic)
    ptx::waitForPredecessor();

  if (!meeting.isBroken())
#pragma unroll 1
    for (; item < items; item += int(gridDim.x)) {
      if (!Config::kPlacesEarly || item != int(blockIdx.x))
        fetch(item);
      if (!owners.has(args.rank))
        continue;
      long long place =
          (long long)(token % own) * kOwners + owners.countBelow(args.rank);
      sum.write(args, token, item % Config::kColumnBlocks,
                windows.in(token / own, args.back + place * Config::kHidden));
    }
  meeting.end(own);
}

} // namespace moe
