//===- token.cuh - one token's experts and weights --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One warp routes one token: it scores, selects and normalizes by the policies
// Score, Select and Normalize of a Config, which also has kExperts and kTopK.
// Selection keys are made from the logits, or, with a bias, from the scores
// plus the bias.
//
// Logits are F32, F16 or BF16; each run passes the type as an argument (Args:
// const void *logits [tokens, kExperts], ElementCode logits_type). The
// conversion of a logit to f32 is exact. The type therefore determines how keys
// are compared, but does not affect the result.
//
// Optional members of Config:
//   kRoutingBias, with Args const float *routing_bias [kExperts]
//   kExpertScale, with Args const float *expert_scale [kExperts]: factors of
//     the weights
//   float kRoutedScale: a factor of all weights
//   kTableRows, if Select is FromTable, with Args const void *token_ids
//     [tokens], ElementCode token_ids_type (I32 or I64) and const int
//     *hash_table [kTableRows, kTopK]; a token whose id is not in the table has
//     no experts
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/types.cuh"
#include "moe/math/score.cuh"
#include "moe/routing/groups.cuh"
#include "moe/routing/normalize.cuh"
#include "moe/routing/select.cuh"

namespace moe::routing {

/// Returns true if the run passes logits, and false if it passes expert ids and
/// weights.
template <class Config>
__device__ __forceinline__ bool hasLogits(const typename Config::Args &args) {
  if constexpr (kIsGiven<typename Config::Select>)
    return false;
  else
    return args.logits != nullptr;
}

/// One token's logits in their stored type. Lane l holds the logits of experts
/// l, l + 32, l + 64, ...; a 16-bit logit is in the lower half of a word. The
/// logits are not converted when they are loaded, so the warp waits for the
/// loads only when it needs the values.
template <class Config> struct TokenLogits {
  static constexpr int kPerLane = ceilDiv(Config::kExperts, 32);
  unsigned bits[kPerLane];

  /// Issues the loads. kFresh: the call is before griddepcontrol.wait. The
  /// logits must have been written before the predecessor started.
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

  /// Converts the logits to f32. Values past the last expert are -inf.
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

  /// Returns the logit of `expert`, which may differ between lanes, or 0 if
  /// `expert` is -1.
  __device__ __forceinline__ float of(ElementCode type, int expert) const {
    unsigned own = 0;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      unsigned its = __shfl_sync(0xffffffffu, bits[i], expert & 31);
      own = expert >> 5 == i ? its : own;
    }
    return type == ElementCode::F32 ? __uint_as_float(own)
                                    : floatOfHalf(type, (unsigned short)own);
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

/// Accessors of a Config's optional members.
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

/// Returns the weight multiplied by kOutputScale, if the Config has it. The
/// factor applies only to the weighted sum of outputs. The weights that the
/// layer outputs to the caller do not include it.
template <class Config>
__device__ __forceinline__ float scaledForOutput(float weight) {
  if constexpr (requires { Config::kOutputScale; })
    return weight * Config::kOutputScale;
  else
    return weight;
}

/// Computes the keys of all experts from their scores plus the bias.
template <class Config, int kPerLane>
__device__ __forceinline__ void
biasedKeys(const float *bias, const float (&values)[kPerLane], float maximum,
           float sum, unsigned (&keys)[kPerLane], int lane) {
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    int expert = i * 32 + lane;
    // The clobber limits how many biases are loaded at the same time, which
    // limits register use.
    if (i % 8 == 7)
      asm volatile("" ::: "memory");
    keys[i] = 0;
    if (expert < Config::kExperts)
      keys[i] = keyOfLogit(Config::Score::score(values[i], maximum, sum) +
                           bias[expert]);
  }
}

/// Returns in lane k the softmax denominator of round k: the sum of exp(value -
/// best) over the finite values near the best one, for the experts that are not
/// selected before round k. The k-th selected expert, round k's winner, is
/// included.
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
      // The condition uses & and | to avoid branches: rounds are short and
      // depend on each other.
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

/// True if an expert's logit can be computed from its selection key. Scores
/// that distinguish NaN from -inf cannot use the key, because both have the
/// same key.
template <class Config>
inline constexpr bool kFindsLogits =
    !Config::Select::kFromTable && !kHasRoutingBias<Config> &&
    !kIsBounded<typename Config::Score>;

/// Converts a token's logits to f32, or draws pseudo-random values instead.
template <class Config, int kPerLane>
__device__ __forceinline__ void
takeValues(const typename Config::Args &args, const TokenLogits<Config> &logits,
           int token, int lane, float (&values)[kPerLane]) {
  using Score = typename Config::Score;
  if constexpr (kIsDrawn<Score>) {
#pragma unroll
    for (int i = 0; i < kPerLane; ++i)
      values[i] = Score::draw(token, i * 32 + lane, Config::kExperts);
  } else {
    logits.convert(args.logits_type, lane, values);
  }
}

/// Computes the maximum of a token's finite logits and the softmax denominator
/// relative to it. For scores that need no sum, the results are 0 and 1.
template <class Config, int kPerLane>
__device__ __forceinline__ void sumValues(const float (&values)[kPerLane],
                                          float &maximum, float &sum) {
  maximum = 0.0f;
  sum = 1.0f;
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
    // The largest logit contributes 1. Without a finite logit, the sum becomes
    // 1, so the scores of -inf are 0 and the bias determines the selection.
    sum = fmaxf(ptx::warpSum(sum), 1.0f);
  }
}

/// Chooses the experts of one token. Lane k receives the k-th expert, and its
/// logit if the selection key determines the logit (kFindsLogits). `maximum`
/// and `sum` are used only if a bias is added to the scores.
template <class Config, bool kFresh, int kPerLane>
__device__ __forceinline__ void
chooseExperts(const typename Config::Args &args,
              const float (&values)[kPerLane], float maximum, float sum,
              int token, int lane, int &expert, float &logit) {
  using Select = typename Config::Select;
  constexpr int kTopK = Config::kTopK, kExperts = Config::kExperts;
  logit = 0.0f;
  unsigned keys[kPerLane];
  if constexpr (Select::kFromTable) {
    expert = -1;
    long long row = loadId<kFresh>(args.token_ids, args.token_ids_type, token);
    if (lane < kTopK && row >= 0 && row < Config::kTableRows)
      expert = args.hash_table[row * kTopK + lane];
    if (expert >= kExperts)
      expert = -1;
  } else if constexpr (kHasRoutingBias<Config>) {
    biasedKeys<Config>(args.routing_bias, values, maximum, sum, keys, lane);
    Select::template select<kTopK, kExperts, true>(keys, lane, expert, logit);
  } else if (!kIsDrawn<typename Config::Score> &&
             args.logits_type != ElementCode::F32) {
    // Key and index share a word, so one comparison replaces two.
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
}

/// Returns in lane k the routing weight of the k-th expert. `values`: the
/// token's logits; `logit`: the logit of the lane's expert.
template <class Config, int kPerLane>
__device__ __forceinline__ float
weighExpert(const typename Config::Args &args, const float (&values)[kPerLane],
            float maximum, float sum, int lane, int expert, float logit) {
  using Score = typename Config::Score;
  using Select = typename Config::Select;
  constexpr int kTopK = Config::kTopK;
  float score = Score::score(logit, maximum, sum);
  if constexpr (kIsByRound<Score>) {
    float left = sumsByRound<Config>(values, lane, expert, logit);
    score = isFinite(logit) ? 1.0f / left : logit;
  }
  bool active = lane < kTopK;
  if constexpr (Select::kFromTable)
    active = active && expert >= 0;
  float weight =
      weightOf<typename Config::Normalize>(score, isFinite(score), active);
  if constexpr (Select::kFromTable)
    weight = active ? weight : 0.0f;
  weight = scaled<Config>(weight);
  if constexpr (kHasExpertScale<Config>)
    if (active)
      weight *= args.expert_scale[expert];
  return weight;
}

/// Chooses the experts of one token and computes their weights. Lane k receives
/// the k-th expert and its weight. kFresh: see TokenLogits::load.
template <class Config, bool kFresh = false>
__device__ __forceinline__ void
routeToken(const typename Config::Args &args, const TokenLogits<Config> &logits,
           int token, int lane, int &expert, float &weight) {
  float values[TokenLogits<Config>::kPerLane];
  takeValues(args, logits, token, lane, values);
  float maximum, sum, logit;
  sumValues<Config>(values, maximum, sum);
  chooseExperts<Config, kFresh>(args, values, maximum, sum, token, lane, expert,
                                logit);
  if constexpr (!kFindsLogits<Config>) {
    logit = 0.0f;
    if (lane < Config::kTopK && expert >= 0)
      logit = loadFloat<kFresh>(args.logits, args.logits_type,
                                (long long)token * Config::kExperts + expert);
  }
  weight = weighExpert<Config>(args, values, maximum, sum, lane, expert, logit);
}

} // namespace moe::routing
