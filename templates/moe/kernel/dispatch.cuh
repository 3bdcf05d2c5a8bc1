//===- dispatch.cuh - tokens to the ranks of their experts ------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Token t of this rank has slot rank * tokens + t in the windows of all ranks
// (moe/exchange/windows.cuh). Its ids and weights are sent to every rank. Its
// row of x and the row's scales are sent only to the token's owners, the ranks
// that hold one of its experts (moe/math/owners.cuh). This rank also sends to
// its own window. A slot that receives no row keeps its old contents, which no
// kernel reads. The kernel ends when the rows of all ranks have arrived
// (moe/exchange/meet.cuh).
//
// Args, in order. The condition for the presence of an argument is in brackets.
//   x: [tokens], rows of kXBytes bytes
//   scale: [tokens], rows of kScaleBytes bytes [if kScaleBytes > 0]
//   second_scale: [tokens], rows of kSecondScaleBytes bytes [if
//     kSecondScaleBytes > 0]
//   topk_ids: int [tokens, kPairs]
//   topk_weights: float [tokens, kPairs]
//   int tokens
//   received_x, received_scale, received_second_scale, received_ids,
//     received_weights: in the window, with the rows of all ranks; the scales
//     are present under the conditions above
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
#include "moe/math/codes.cuh"

namespace moe {

template <class Config> constexpr bool checkDispatchConfig() {
  checkCommonConfig<Config>();
  MOE_REQUIRE_VALUE(Config, kRanks, "ranks that tokens come from");
  MOE_REQUIRE_VALUE(Config, kExperts,
                    "experts that are distributed over ranks, or 0");
  MOE_REQUIRE_VALUE(Config, kPairs, "(token, expert) pairs per token");
  MOE_REQUIRE_VALUE(Config, kXBytes, "bytes per row of x");
  MOE_REQUIRE_VALUE(Config, kScaleBytes, "bytes of a row's scales, or 0");
  MOE_REQUIRE_VALUE(Config, kSecondScaleBytes,
                    "bytes of a row's second scales, or 0");
  MOE_REQUIRE_VALUE(Config, kIdsEarly,
                    "ids are final before the predecessor launch ends");
  return true;
}

/// Returns the dynamic shared memory of the kernel in bytes, 0.
template <class Config> constexpr int sharedBytes() {
  static_assert(checkDispatchConfig<Config>());
  return 0;
}

/// Copies row `token` of matrix `from` to `to`, one copy chunk at a time, by
/// calls of store(row, to, token, piece, loaded); `piece` is the chunk's index
/// in the row.
template <int kBytes, class Store>
__device__ __forceinline__ void copyWhole(Store store, const void *from,
                                          void *to, int token) {
  using Row = exchange::Row<kBytes>;
#pragma unroll 1
  for (int piece = 0; piece < Row::kPieces; ++piece)
    store(Row(), to, token, piece, Row::load(Row::at(from, token), piece));
}

template <class Config>
__device__ __forceinline__ void dispatch(const typename Config::Args &args) {
  static_assert(checkDispatchConfig<Config>());
  using X = exchange::Row<Config::kXBytes>;
  /// Bytes of one token's ids; its weights have the same size. The ids of all
  /// tokens are copied as one array, and so are the weights.
  constexpr int kPairBytes = 4 * Config::kPairs;
  using Pairs = exchange::Pieces<exchange::wordBytes(kPairBytes)>;
  using Ranks = RankSet<Config::kRanks>;

  exchange::Meeting<Config> meeting(args, ExchangePhase::Dispatch);
  const exchange::Windows windows(args.peers, args.exchange_words);
  const int tokens = args.tokens, next = args.rank + 1;
  const int warp = int(blockIdx.x * Config::kThreads + threadIdx.x) / 32;
  const int warps = int(gridDim.x) * (Config::kThreads / 32);
  const int rowPieces = tokens * X::kPieces;
  const int pairWords = tokens * (kPairBytes / exchange::wordBytes(kPairBytes));
  const int pairPieces = ceilDiv(pairWords, exchange::kPieceWords);
  const long long firstSlot = (long long)args.rank * tokens;
  Ranks owners;
  if constexpr (Config::kIdsEarly)
    if (warp < rowPieces)
      owners = exchange::ownersOf<Config>(args.topk_ids, warp / X::kPieces);
  if constexpr (Config::kProgrammatic)
    ptx::waitForPredecessor();

  // Stores one copy chunk of a token's row in the window of each owner.
  auto store = [&](auto row, void *to, int token, int piece,
                   const auto &loaded) {
    using Row = decltype(row);
    exchange::forEachRank(owners, next, [&](int other) {
      Row::store(Row::at(windows.in(other, to), firstSlot + token), piece,
                 loaded);
    });
  };
  auto copyPairs = [&](const void *from, auto *to, int piece) {
    auto loaded = Pairs::load(from, pairWords, piece);
    exchange::forEachRank(Ranks::all(Config::kRanks), next, [&](int other) {
      Pairs::store(windows.in(other, to + firstSlot * Config::kPairs),
                   pairWords, piece, loaded);
    });
  };
  if (!meeting.isBroken())
#pragma unroll 1
    for (int item = warp; item < rowPieces + 2 * pairPieces; item += warps) {
      int piece = item - rowPieces;
      if (piece >= pairPieces) {
        copyPairs(args.topk_weights, args.received_weights, piece - pairPieces);
        continue;
      }
      if (piece >= 0) {
        copyPairs(args.topk_ids, args.received_ids, piece);
        continue;
      }
      int token = item / X::kPieces;
      piece = item % X::kPieces;
      auto loaded = X::load(X::at(args.x, token), piece);
      if (!Config::kIdsEarly || item != warp)
        owners = exchange::ownersOf<Config>(args.topk_ids, token);
      store(X(), args.received_x, token, piece, loaded);
      if (piece != 0)
        continue;
      if constexpr (Config::kScaleBytes > 0)
        copyWhole<Config::kScaleBytes>(store, args.scale, args.received_scale,
                                       token);
      if constexpr (Config::kSecondScaleBytes > 0)
        copyWhole<Config::kSecondScaleBytes>(store, args.second_scale,
                                             args.received_second_scale, token);
    }
  meeting.end(tokens);
}

} // namespace moe
