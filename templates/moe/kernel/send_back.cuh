//===- send_back.cuh - partial sums to the tokens' ranks --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sends each token's partial sums from an owner back to the token's rank. Each
// rank has `own` tokens. Row s * own + t of `partials` belongs to token t of
// rank s. If this rank is the token's j-th owner (moe/math/owners.cuh), it
// writes the row to back[t, j] in the window of rank s. The kernel ends when
// the partial sums of all ranks have arrived (moe/exchange/meet.cuh).
//
// Args, in order:
//   partials: [tokens], rows of kPartialsBytes bytes
//   topk_ids: int [tokens, kPairs]
//   int tokens: the tokens of all ranks together
//   back: [tokens / kRanks, mostOwners], rows of kPartialsBytes bytes, in the
//     window (moe/exchange/windows.cuh)
//   exchange_words: the start of the window
//   exchange_counter: 0 on entry and on exit
//   peers, status, int rank: see moe/exchange/meet.cuh
//
// Grid.x: any.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/concepts.cuh"
#include "moe/core/pdl.cuh"
#include "moe/exchange/meet.cuh"

namespace moe {

template <class Config> constexpr bool checkSendBackConfig() {
  checkCommonConfig<Config>();
  MOE_REQUIRE_VALUE(Config, kRanks, "ranks that tokens come from");
  MOE_REQUIRE_VALUE(Config, kExperts,
                    "experts that are distributed over ranks, or 0");
  MOE_REQUIRE_VALUE(Config, kPairs, "(token, expert) pairs per token");
  MOE_REQUIRE_VALUE(Config, kPartialsBytes, "bytes of a token's partial sums");
  MOE_REQUIRE_VALUE(Config, kIdsEarly,
                    "ids are final before the predecessor launch ends");
  return true;
}

/// Returns the dynamic shared memory of the kernel in bytes, 0.
template <class Config> constexpr int sharedBytes() {
  static_assert(checkSendBackConfig<Config>());
  return 0;
}

template <class Config>
__device__ __forceinline__ void sendBack(const typename Config::Args &args) {
  static_assert(checkSendBackConfig<Config>());
  using Sums = exchange::Row<Config::kPartialsBytes>;
  constexpr int kOwners =
      mostOwners(Config::kExperts, Config::kRanks, Config::kPairs);

  exchange::Meeting<Config> meeting(args, ExchangePhase::SendBack);
  const exchange::Windows windows(args.peers, args.exchange_words);
  const int tokens = args.tokens, own = tokens / Config::kRanks;
  const int warp = int(blockIdx.x * Config::kThreads + threadIdx.x) / 32;
  const int warps = int(gridDim.x) * (Config::kThreads / 32);
  const int pieces = tokens * Sums::kPieces;
  auto tokenOf = [&](int item) {
    return exchange::tokenFromNext(item / Sums::kPieces, args.rank, own,
                                   tokens);
  };
  RankSet<Config::kRanks> owners;
  if constexpr (Config::kIdsEarly)
    if (warp < pieces)
      owners = exchange::ownersOf<Config>(args.topk_ids, tokenOf(warp));
  if constexpr (Config::kProgrammatic)
    ptx::waitForPredecessor();

  if (!meeting.isBroken())
#pragma unroll 1
    for (int item = warp; item < pieces; item += warps) {
      int token = tokenOf(item), piece = item % Sums::kPieces;
      if (!Config::kIdsEarly || item != warp)
        owners = exchange::ownersOf<Config>(args.topk_ids, token);
      if (!owners.has(args.rank))
        continue;
      auto loaded = Sums::load(Sums::at(args.partials, token), piece);
      long long place =
          (long long)(token % own) * kOwners + owners.countBelow(args.rank);
      Sums::store(Sums::at(windows.in(token / own, args.back), place), piece,
                  loaded);
    }
  meeting.end(own);
}

} // namespace moe
