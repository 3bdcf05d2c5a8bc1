//===- token.cuh - one token's experts and weights --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One warp routes one token: score, select and normalize by the policies of a
// Config with Score, Select, Normalize, kExperts and kTopK. Keys are the
// logits, or, with a bias, the scores and it.
//
// Logits come as F32, F16 or BF16, which the run says (Args: const void *logits
// [tokens, kExperts], ElementCode logits_type). Each is a number of f32, so the
// type changes how keys are compared, and no result.
//
// A Config may also have kRoutingBias (Args: const float *routing_bias
// [kExperts]), kExpertScale (const float *expert_scale [kExperts]: factors of
// the weights) and float kRoutedScale, a factor of all. With Select FromTable
// it has kTableRows, and Args const void *token_ids [tokens], ElementCode
// token_ids_type (I32 or I64) and const int *hash_table [kTableRows, kTopK]; an
// id that the table lacks routes nowhere.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/types.cuh"
#include "moe/math/score.cuh"
#include "moe/routing/groups.cuh"
#include "moe/routing/normalize.cuh"
#include "moe/routing/select.cuh"

namespace moe::routing {

/// Whether there are logits, not ids and weights that are given.
template <class Config>
__device__ __forceinline__ bool hasLogits(const typename Config::Args &args) {
  if constexpr (kIsGiven<typename Config::Select>)
    return false;
  else
    return args.logits != nullptr;
}

/// One token's logits as they are stored, every 32nd in a lane, those of 16
/// bits in the lower half of a word. They are not converted when they are
/// loaded, so that nobody waits for them before they are needed.
template <class Config> struct TokenLogits {
  static constexpr int kPerLane = ceilDiv(Config::kExperts, 32);
  unsigned bits[kPerLane];

  /// kFresh: what a kernel before the predecessor wrote, ahead of the wait.
  template <bool kFresh = false>
  __device__ __forceinline__ void load(const typename Config::Args &args,
                                       int token, int lane) {
    if constexpr (!kIsGiven<typename Config::Select>) {
      long long first = (long long)token * Config::kExperts + lane;
      if (args.logits_type == ElementCode::F32)
        loadBits<kFresh>(static_cast<const int *>(args.logits) + first, lane);
      else
        loadBits<kFresh>(
            static_cast<const unsigned short *>(args.logits) + first, lane);
    }
  }

  /// As f32; -inf where there is no expert.
  __device__ __forceinline__ void convert(ElementCode type, int lane,
                                          float (&values)[kPerLane]) const {
    if (type == ElementCode::F32)
      convertBy(lane, values, [](unsigned b) { return __uint_as_float(b); });
    else if (type == ElementCode::BF16)
      convertBy(lane, values,
                [](unsigned b) { return __uint_as_float(b << 16); });
    else
      convertBy(lane, values, [](unsigned b) {
        return ptx::floatFromHalf((unsigned short)b);
      });
  }

private:
  template <bool kFresh, class T>
  __device__ __forceinline__ void loadBits(const T *logits, int lane) {
#pragma unroll
    for (int i = 0; i < kPerLane; ++i)
      if (i * 32 + lane < Config::kExperts) {
        if constexpr (kFresh)
          bits[i] = unsigned(ptx::loadFresh(logits + i * 32));
        else
          bits[i] = unsigned(logits[i * 32]);
      }
  }

  template <class Convert>
  __device__ __forceinline__ void convertBy(int lane, float (&values)[kPerLane],
                                            Convert convert) const {
#pragma unroll
    for (int i = 0; i < kPerLane; ++i)
      values[i] = i * 32 + lane < Config::kExperts
                      ? convert(bits[i])
                      : __uint_as_float(0xff800000u);
  }
};

/// The members that a Config may omit.
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
  using Score = typename Config::Score;
  using Select = typename Config::Select;
  constexpr int kPerLane = TokenLogits<Config>::kPerLane;
  constexpr int kTopK = Config::kTopK, kExperts = Config::kExperts;
  constexpr bool kBias = kHasRoutingBias<Config>;
  float values[kPerLane];
  unsigned keys[kPerLane];
  if constexpr (kIsDrawn<Score>) {
#pragma unroll
    for (int i = 0; i < kPerLane; ++i)
      values[i] = Score::draw(token, i * 32 + lane, kExperts);
  } else {
    logits.convert(args.logits_type, lane, values);
  }
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
    if (lane >= kTopK || expert < 0)
      return 0.0f;
    return loadFloat<kFresh>(args.logits, args.logits_type,
                             (long long)token * kExperts + expert);
  };
  if constexpr (Select::kFromTable) {
    expert = -1;
    long long row = loadId<kFresh>(args.token_ids, args.token_ids_type, token);
    if (lane < kTopK && row >= 0 && row < Config::kTableRows)
      expert = args.hash_table[row * kTopK + lane];
    if (expert >= kExperts)
      expert = -1;
    logit = logitOf();
  } else if constexpr (kBias) {
    biasedKeys<Config>(args.routing_bias, values, maximum, sum, keys, lane);
    Select::template select<kTopK, kExperts, true>(keys, lane, expert, logit);
    logit = logitOf();
  } else if (!kIsDrawn<Score> && args.logits_type != ElementCode::F32) {
    // Key and index in one word: one comparison in place of two.
    const bool isBf16 = args.logits_type == ElementCode::BF16;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      unsigned key = isBf16 ? keyOfLogit(values[i]) >> 16
                            : keyOfHalf(ptx::halfFromFloat(values[i]), 0x7c00u);
      keys[i] = i * 32 + lane < kExperts
                    ? key << 16 | (0xffffu - unsigned(i * 32 + lane))
                    : 0u;
    }
    unsigned word =
        Select::template selectWords<kTopK, kExperts, false>(keys, lane);
    expert = int(0xffffu - (word & 0xffffu));
    logit = floatOfHalf(args.logits_type, halfOfKey(word >> 16));
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
  weight = weightOf<typename Config::Normalize, kTopK>(score, isFinite(score),
                                                       active);
  if constexpr (Select::kFromTable)
    weight = active ? weight : 0.0f;
  weight = scaled<Config>(weight);
  if constexpr (kHasExpertScale<Config>)
    if (active)
      weight *= args.expert_scale[expert];
}

} // namespace moe::routing
