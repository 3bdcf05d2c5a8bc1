//===- finalize.cuh - the sum of a token over its owners --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// out[t] = sum over j of partials[t, j] for the owners j = 0, 1, ... of the
// token: the ranks that hold one of its experts (moe/math/owners.cuh). The sum
// is f32 and rounded once. A token without an owner gets zeros. If a wait for
// other ranks failed, the whole output is NaN.
//
// Args, in order:
//   partials: Partial [tokens, mostOwners, kHidden], in the window
//     (moe/exchange/windows.cuh)
//   topk_ids: int [tokens, kPairs]
//   int tokens
//   out: Output [tokens, kHidden]
//   exchange_words: the start of the window
//
// Grid.x: tokens * kColumnBlocks. kColumnBlocks adjacent CTAs share a token.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/concepts.cuh"
#include "moe/core/pdl.cuh"
#include "moe/core/ptx_peer.cuh"
#include "moe/exchange/windows.cuh"

namespace moe {

template <class Config> constexpr bool checkFinalizeConfig() {
  checkCommonConfig<Config>();
  MOE_REQUIRE_TYPE(Config, Partial, "element type of the partial sums");
  MOE_REQUIRE_TYPE(Config, Output, "element type of the output");
  MOE_REQUIRE_VALUE(Config, kRanks, "ranks that send partial sums");
  MOE_REQUIRE_VALUE(Config, kExperts,
                    "experts that are distributed over ranks, or 0");
  MOE_REQUIRE_VALUE(Config, kPairs, "(token, expert) pairs per token");
  MOE_REQUIRE_VALUE(Config, kHidden, "columns");
  MOE_REQUIRE_VALUE(Config, kColumnBlocks, "CTAs that share a token");
  MOE_REQUIRE_VALUE(Config, kIdsEarly,
                    "ids are final before the predecessor launch ends");
  static_assert(kSame<typename Config::Partial, typename Config::Output>,
                "Partial must equal Output");
  static_assert(Config::kHidden % kPerVector<typename Config::Output> == 0,
                "rows must be whole 16-byte vectors");
  return true;
}

/// Returns the dynamic shared memory of the kernel in bytes, 0.
template <class Config> constexpr int sharedBytes() {
  static_assert(checkFinalizeConfig<Config>());
  return 0;
}

template <class Config>
__device__ __forceinline__ void finalize(const typename Config::Args &args) {
  static_assert(checkFinalizeConfig<Config>());
  using Output = typename Config::Output;
  constexpr int kWidth = kPerVector<Output>;
  constexpr int kVectors = Config::kHidden / kWidth;
  constexpr int kShare = ceilDiv(kVectors, Config::kColumnBlocks);
  constexpr int kOwners =
      mostOwners(Config::kExperts, Config::kRanks, Config::kPairs);
  /// The number of owners whose partial sums are loaded together.
  constexpr int kBatch = minimum(kOwners, 8);

  int token = int(blockIdx.x) / Config::kColumnBlocks;
  int share = int(blockIdx.x) % Config::kColumnBlocks;
  bool isToken = token < args.tokens;
  auto countOwners = [&] {
    return exchange::ownersOf<Config>(args.topk_ids, isToken ? token : 0)
        .count();
  };
  int owners = 0;
  if constexpr (Config::kIdsEarly)
    owners = countOwners();
  awaitPredecessor<Config>();
  if constexpr (!Config::kIdsEarly)
    owners = countOwners();
  if (!isToken)
    return;
  // A rank whose wait fails may write the word at any time.
  const bool broken =
      ptx::loadRelaxed(args.exchange_words +
                       ExchangeWords{Config::kRanks}.broken()) != 0;
  int end = min(kVectors, (share + 1) * kShare);
#pragma unroll 1
  for (int v = share * kShare + int(threadIdx.x); v < end;
       v += Config::kThreads) {
    const Vector16 *source = reinterpret_cast<const Vector16 *>(args.partials) +
                             (long long)token * kOwners * kVectors + v;
    float sums[kWidth] = {};
#pragma unroll 1
    for (int first = 0; first < owners; first += kBatch) {
      Vector16 vectors[kBatch];
#pragma unroll
      for (int j = 0; j < kBatch; ++j)
        if (first + j < owners)
          vectors[j] = source[(first + j) * kVectors];
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        if (first + j >= owners)
          continue;
        float values[kWidth];
        unpack<Output>(vectors[j], values);
#pragma unroll
        for (int i = 0; i < kWidth; ++i)
          sums[i] += values[i];
      }
    }
    if (broken)
#pragma unroll
      for (float &sum : sums)
        sum = __uint_as_float(0x7fffffffu);
    reinterpret_cast<Vector16 *>(args.out)[(long long)token * kVectors + v] =
        pack<Output>(sums);
  }
}

} // namespace moe
