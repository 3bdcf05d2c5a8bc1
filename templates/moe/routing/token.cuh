//===- token.cuh - one token's experts and weights --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One warp routes one token: score, select and normalize by the policies of a
// Config with Logits, Score, Select, Normalize, kExperts and kTopK.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/types.cuh"
#include "moe/routing/normalize.cuh"
#include "moe/routing/score.cuh"
#include "moe/routing/select.cuh"

namespace moe::routing {

/// One token's logits as they are stored, every 32nd in a lane.
template <class Config> struct TokenLogits {
  using Logits = typename Config::Logits;
  static constexpr int kPerLane = ceilDiv(Config::kExperts, 32);
  Logits values[kPerLane];

  /// kFresh: what a kernel before the predecessor wrote, ahead of the wait.
  template <bool kFresh = false>
  __device__ __forceinline__ void load(const Logits *logits, int lane) {
#pragma unroll
    for (int i = 0; i < kPerLane; ++i)
      if (i * 32 + lane < Config::kExperts) {
        if constexpr (kFresh)
          values[i] = loadFresh(logits + i * 32 + lane);
        else
          values[i] = logits[i * 32 + lane];
      }
  }

  /// -inf where there is no expert.
  __device__ __forceinline__ float value(int i, int lane) const {
    return i * 32 + lane < Config::kExperts ? toFloat(values[i])
                                            : __uint_as_float(0xff800000u);
  }
};

/// The experts of one token; lane k gets the k-th.
template <class Config>
__device__ __forceinline__ void routeToken(const TokenLogits<Config> &logits,
                                           int lane, int &expert,
                                           float &weight) {
  using Logits = typename Config::Logits;
  constexpr int kPerLane = TokenLogits<Config>::kPerLane;
  float values[kPerLane];
  unsigned keys[kPerLane];
#pragma unroll
  for (int i = 0; i < kPerLane; ++i)
    values[i] = logits.value(i, lane);
  float maximum = 0.0f, sum = 1.0f;
  if constexpr (Config::Score::kNeedsSum) {
    maximum = -3.402823466e38f;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i)
      if (isFinite(values[i]))
        maximum = fmaxf(maximum, values[i]);
    maximum = logitOfKey(ptx::warpMaximum(keyOfLogit(maximum)));
    sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i)
      sum += isFinite(values[i]) ? expf(values[i] - maximum) : 0.0f;
    sum = ptx::warpSum(sum);
  }
  float logit;
  if constexpr (sizeof(Logits) == 2) {
    constexpr unsigned kInfinity = kSame<Logits, bf16> ? 0x7f80u : 0x7c00u;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i)
      keys[i] = i * 32 + lane < Config::kExperts
                    ? keyOfHalf(logits.values[i].bits, kInfinity) << 16 |
                          (0xffffu - unsigned(i * 32 + lane))
                    : 0u;
    unsigned word =
        Config::Select::template selectWords<Config::kTopK>(keys, lane);
    expert = int(0xffffu - (word & 0xffffu));
    logit = toFloat(Logits{(unsigned short)halfOfKey(word >> 16)});
  } else {
#pragma unroll
    for (int i = 0; i < kPerLane; ++i)
      keys[i] = i * 32 + lane < Config::kExperts ? keyOfLogit(values[i]) : 0u;
    Config::Select::template select<Config::kTopK>(keys, lane, expert, logit);
  }
  float score = Config::Score::score(logit, maximum, sum);
  weight = Config::Normalize::template weight<Config::kTopK>(
      score, isFinite(score), lane < Config::kTopK);
}

} // namespace moe::routing
