//===- select.cuh - selection of a token's experts --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One warp selects the experts of one token. Logits, or scores plus a bias, are
// converted to keys (moe/math/keys.cuh). The key of an expert that cannot be
// selected, or is already selected, is 0. Experts are ordered by decreasing
// key, then by increasing index. A selection always has kTopK distinct experts.
// Policies with groups (moe/routing/groups.cuh) call TopK.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx.cuh"
#include "moe/core/types.cuh"
#include "moe/math/keys.cuh"

namespace moe::routing {

/// Selects the kTopK largest keys.
struct TopK {
  static constexpr bool kGrouped = false;
  static constexpr bool kFromTable = false;

  /// Selects with 16-bit keys. keys[i] is a word with the key of expert i * 32
  /// + lane in the upper half and 65535 minus the expert's index in the lower
  /// half, or 0 past the last expert. The largest word thus belongs to the
  /// largest key, and among equal keys to the lowest index. Lane k < kTopK
  /// receives the k-th largest word.
  template <int kTopK, int kExperts, bool kTwo, int kPerLane>
  static __device__ __forceinline__ unsigned
  selectWords(unsigned (&keys)[kPerLane], int lane) {
    unsigned own = 0;
#pragma unroll 1
    for (int k = 0; k < kTopK; ++k) {
      unsigned best = keys[0];
#pragma unroll
      for (int i = 1; i < kPerLane; ++i)
        best = max(best, keys[i]);
      unsigned top = ptx::warpMaximum(best);
      own = lane == k ? top : own;
#pragma unroll
      for (int i = 0; i < kPerLane; ++i)
        keys[i] = keys[i] == top ? 0 : keys[i];
    }
    return own;
  }

  /// Selects with 32-bit keys. keys[i] is the key of expert i * 32 + lane, and
  /// 0 past the last expert. The keys are overwritten. Lane k < kTopK receives
  /// the k-th best expert and its logit.
  template <int kTopK, int kExperts, bool kTwo, int kPerLane>
  static __device__ __forceinline__ void
  select(unsigned (&keys)[kPerLane], int lane, int &expert, float &logit) {
    expert = -1;
    logit = 0.0f;
#pragma unroll 1
    for (int k = 0; k < kTopK; ++k) {
      unsigned best = keys[0];
#pragma unroll
      for (int i = 1; i < kPerLane; ++i)
        best = max(best, keys[i]);
      unsigned top = ptx::warpMaximum(best);
      unsigned index = 0xffffffffu;
#pragma unroll
      for (int i = kPerLane - 1; i >= 0; --i)
        index = keys[i] == top ? unsigned(i * 32 + lane) : index;
      unsigned winner = ptx::warpMinimum(index);
      if (lane == k) {
        expert = int(winner);
        logit = logitOfKey(top);
      }
#pragma unroll
      for (int i = 0; i < kPerLane; ++i)
        if (winner == unsigned(i * 32 + lane))
          keys[i] = 0;
    }
  }
};

/// Selects the experts that a hash table lists for the token's id, regardless
/// of the logits.
struct FromTable {
  static constexpr bool kGrouped = false;
  static constexpr bool kFromTable = true;
};

/// Selects the experts that the caller passes. Args has no logits.
struct Given {
  static constexpr bool kGrouped = false;
  static constexpr bool kFromTable = false;
  static constexpr bool kGiven = true;
};
template <class Select>
inline constexpr bool kIsGiven = requires { requires Select::kGiven; };

} // namespace moe::routing
