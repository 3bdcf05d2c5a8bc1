//===- token.cuh - one token's experts and weights --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One warp routes one token: score, select and normalize by the policies of a
// Config with Logits, Score, Select, Normalize, kExperts and kTopK. Keys are
// the logits, or, with a bias, the scores and it.
//
// A Config may also have kRoutingBias (Args: const float *routing_bias
// [kExperts]), kExpertScale (const float *expert_scale [kExperts]: factors of
// the weights) and float kRoutedScale, a factor of all. With Select FromTable
// it has kTableRows, and Args const void *token_ids [tokens], int
// token_ids_bytes (4 or 8) and const int *hash_table [kTableRows, kTopK]; an id
// that the table lacks routes nowhere.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/types.cuh"
#include "moe/routing/groups.cuh"
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

/// The logits of all tokens, null where ids and weights are given.
template <class Config>
__device__ __forceinline__ const typename Config::Logits *
logitsOf(const typename Config::Args &args) {
  if constexpr (kIsGiven<typename Config::Select>)
    return nullptr;
  else
    return args.logits;
}

/// What a Config may leave away.
template <class Config>
inline constexpr bool kHasRoutingBias =
    requires { requires Config::kRoutingBias; };
template <class Config>
inline constexpr bool kHasExpertScale =
    requires { requires Config::kExpertScale; };
template <class Config> __device__ __forceinline__ float scaled(float weight) {
  if constexpr (requires { Config::kRoutedScale; })
    return weight * Config::kRoutedScale;
  else
    return weight;
}

/// A weight as outputs are summed with it: kOutputScale is a factor of these
/// alone, not of what the caller is shown.
template <class Config>
__device__ __forceinline__ float scaledForOutput(float weight) {
  if constexpr (requires { Config::kOutputScale; })
    return weight * Config::kOutputScale;
  else
    return weight;
}

/// Scores of all experts in place of their logits, as keys with the bias.
template <class Config, int kPerLane>
__device__ __forceinline__ void
biasedKeys(const float *bias, const float (&values)[kPerLane], float maximum,
           float sum, unsigned (&keys)[kPerLane], int lane) {
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    int expert = i * 32 + lane;
    // No more biases at a time than there are registers for.
    if (i % 8 == 7)
      asm volatile("" ::: "memory");
    keys[i] = 0;
    if (expert < Config::kExperts)
      keys[i] = keyOfLogit(Config::Score::score(values[i], maximum, sum) +
                           bias[expert]);
  }
}

/// The sum over what is left in each round; lane k gets that of round k.
template <class Config, int kPerLane>
__device__ __forceinline__ float sumsByRound(const float (&values)[kPerLane],
                                             int lane, int expert,
                                             float logit) {
  float result = 0.0f;
#pragma unroll 1
  for (int k = 0; k < Config::kTopK; ++k) {
    float best = __shfl_sync(0xffffffffu, logit, k);
    int winner = __shfl_sync(0xffffffffu, expert, k);
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      // Without a branch: rounds are short, and wait for each other.
      bool counts =
          (values[i] < best | (values[i] == best & i * 32 + lane >= winner)) &
          isFinite(values[i]) & Config::Score::isNear(values[i], best);
      sum += counts ? expf(values[i] - best) : 0.0f;
    }
    sum = ptx::warpSum(sum);
    result = lane == k ? sum : result;
  }
  return result;
}

/// The experts of one token; lane k gets the k-th. kFresh: see TokenLogits.
template <class Config, bool kFresh = false>
__device__ __forceinline__ void
routeToken(const typename Config::Args &args, const TokenLogits<Config> &logits,
           int token, int lane, int &expert, float &weight) {
  using Logits = typename Config::Logits;
  using Score = typename Config::Score;
  using Select = typename Config::Select;
  constexpr int kPerLane = TokenLogits<Config>::kPerLane;
  constexpr int kTopK = Config::kTopK, kExperts = Config::kExperts;
  constexpr bool kBias = kHasRoutingBias<Config>;
  float values[kPerLane];
  unsigned keys[kPerLane];
#pragma unroll
  for (int i = 0; i < kPerLane; ++i)
    if constexpr (kIsDrawn<Score>)
      values[i] = Score::template draw<kExperts>(token, i * 32 + lane);
    else
      values[i] = logits.value(i, lane);
  float maximum = 0.0f, sum = 1.0f;
  if constexpr (Score::kNeedsSum) {
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
    // At least the largest one's 1; without a finite logit the scores of -inf
    // are 0, too, and the bias selects.
    sum = fmaxf(ptx::warpSum(sum), 1.0f);
  }
  float logit;
  // The logit of an expert that was not found by it.
  auto logitOf = [&] {
    const Logits *at =
        logitsOf<Config>(args) + (long long)token * kExperts + expert;
    if (lane >= kTopK || expert < 0)
      return 0.0f;
    if constexpr (kFresh)
      return toFloat(loadFresh(at));
    else
      return toFloat(*at);
  };
  if constexpr (Select::kFromTable) {
    expert = -1;
    long long row = loadId<kFresh>(args.token_ids, args.token_ids_bytes, token);
    if (lane < kTopK && row >= 0 && row < Config::kTableRows)
      expert = args.hash_table[row * kTopK + lane];
    if (expert >= kExperts)
      expert = -1;
    logit = logitOf();
  } else if constexpr (kBias) {
    biasedKeys<Config>(args.routing_bias, values, maximum, sum, keys, lane);
    Select::template select<kTopK, kExperts, true>(keys, lane, expert, logit);
    logit = logitOf();
  } else if constexpr (sizeof(Logits) == 2 && !kIsDrawn<Score>) {
    constexpr unsigned kInfinity = kSame<Logits, bf16> ? 0x7f80u : 0x7c00u;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i)
      keys[i] = i * 32 + lane < kExperts
                    ? keyOfHalf(logits.values[i].bits, kInfinity) << 16 |
                          (0xffffu - unsigned(i * 32 + lane))
                    : 0u;
    unsigned word =
        Select::template selectWords<kTopK, kExperts, false>(keys, lane);
    expert = int(0xffffu - (word & 0xffffu));
    logit = toFloat(Logits{(unsigned short)halfOfKey(word >> 16)});
  } else {
#pragma unroll
    for (int i = 0; i < kPerLane; ++i)
      keys[i] = i * 32 + lane < kExperts ? keyOfLogit(values[i]) : 0u;
    Select::template select<kTopK, kExperts, false>(keys, lane, expert, logit);
  }
  float score = Score::score(logit, maximum, sum);
  if constexpr (kIsByRound<Score>) {
    float left = sumsByRound<Config>(values, lane, expert, logit);
    score = isFinite(logit) ? 1.0f / left : logit;
  }
  bool active = lane < kTopK;
  if constexpr (Select::kFromTable)
    active = active && expert >= 0;
  weight =
      Config::Normalize::template weight<kTopK>(score, isFinite(score), active);
  if constexpr (Select::kFromTable)
    weight = active ? weight : 0.0f;
  weight = scaled<Config>(weight);
  if constexpr (kHasExpertScale<Config>)
    if (active)
      weight *= args.expert_scale[expert];
}

} // namespace moe::routing
