//===- token.cuh - one token's experts and weights --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One warp routes one token: it scores, selects and normalizes by the policies
// of a Config with Score, Select, Normalize, kExperts and kTopK. Keys are the
// logits, or, with a bias, the scores plus the bias.
//
// Logits are F32, F16 or BF16; the type is an argument of each run (Args: const
// void *logits [tokens, kExperts], ElementCode logits_type). Every logit
// converts to f32 exactly, so the type changes how keys are compared, but not
// the result.
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

/// Returns true if the run has logits, and false if it has given ids and
/// weights.
template <class Config>
__device__ __forceinline__ bool hasLogits(const typename Config::Args &args) {
  if constexpr (kIsGiven<typename Config::Select>)
    return false;
  else
    return args.logits != nullptr;
}

/// One token's logits in stored representation: lane l holds every 32nd logit
/// from l on, 16-bit ones in the lower half of a word. They are not converted
/// when they are loaded, so the warp does not wait for the load before it needs
/// them.
template <class Config> struct TokenLogits {
  static constexpr int kPerLane = ceilDiv(Config::kExperts, 32);
  unsigned bits[kPerLane];

  /// Issues the loads. kFresh: called before griddepcontrol.wait; the logits
  /// were written before the predecessor.
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

  /// Converts the logits to f32; -inf past the last expert.
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

  /// Returns the logit of `expert`, which may differ between lanes. For an
  /// expert of -1 it is 0.
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

/// Traits of the optional members of a Config.
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

/// Returns a weight multiplied by kOutputScale, if there is one. The factor
/// applies only to the sum of outputs, not to the weights that the caller sees.
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
    // The clobber limits how many biases are loaded at the same time, and so
    // the registers.
    if (i % 8 == 7)
      asm volatile("" ::: "memory");
    keys[i] = 0;
    if (expert < Config::kExperts)
      keys[i] = keyOfLogit(Config::Score::score(values[i], maximum, sum) +
                           bias[expert]);
  }
}

/// Returns in lane k the sum of exp(value - best) over the experts that are
/// left in round k, from the winner of that round on.
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
      // The condition has no branch: rounds are short and depend on each other.
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

/// True if the logit follows from the key by which an expert is selected. NaN
/// and -inf have the same key.
template <class Config>
inline constexpr bool kFindsLogits =
    !Config::Select::kFromTable && !kHasRoutingBias<Config> &&
    !kIsBounded<typename Config::Score>;

/// Converts a token's logits to f32, or draws values in place of them.
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

/// Computes the sum of a token's softmax and the maximum that it is relative
/// to. For a score without a sum they are 1 and 0.
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
    // The largest logit contributes 1. Without a finite logit, the scores of
    // -inf are also 0, and the bias selects.
    sum = fmaxf(ptx::warpSum(sum), 1.0f);
  }
}

/// Chooses the experts of one token. Lane k receives the k-th expert, and its
/// logit if the selection key determines it (kFindsLogits). maximum and sum are
/// used only if a bias is added to the scores.
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

/// Returns the routing weight of lane k's expert.
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

/// Chooses the experts of one token and computes their weights; lane k receives
/// the k-th ones. kFresh: see TokenLogits.
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
