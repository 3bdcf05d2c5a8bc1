//===- select.cuh - which experts are chosen for a token --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One warp selects for one token. Logits, or scores with a bias, become keys
// (math/keys.cuh), 0 for what may not be taken (any more). Larger key first,
// then lower index; always kTopK distinct experts. Policies that know groups
// (groups.cuh) build on the plain one.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx.cuh"
#include "moe/core/types.cuh"
#include "moe/math/keys.cuh"

namespace moe::routing {

/// Plain selection of the kTopK largest.
struct TopK {
  static constexpr bool kGrouped = false;
  static constexpr bool kFromTable = false;

  /// Selects by 16-bit logits, whose key and index fit into one word: keys[i]
  /// is the key in the upper half, 65535 - expert in the lower one, or 0 beyond
  /// the last expert. Lane k < kTopK receives the word of the k-th best.
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

  /// keys[i] belongs to expert i * 32 + lane (0 beyond the last expert) and is
  /// consumed. Lane k < kTopK receives the k-th best expert and its logit.
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

/// Selects what a table says for the token's id, whatever the logits.
struct FromTable {
  static constexpr bool kGrouped = false;
  static constexpr bool kFromTable = true;
};

/// Selects what the caller gives, and never by logits: Args has none.
struct Given {
  static constexpr bool kGrouped = false;
  static constexpr bool kFromTable = false;
  static constexpr bool kGiven = true;
};
template <class Select>
inline constexpr bool kIsGiven = requires { requires Select::kGiven; };

} // namespace moe::routing
