//===- groups.cuh - selection from groups of experts ------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Selection from kGroups groups of consecutive experts, all of the same size.
// One warp selects for one token. The keys are described in
// moe/routing/select.cuh: 32-bit keys, or words that hold a 16-bit key and an
// index.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/types.cuh"
#include "moe/routing/select.cuh"

namespace moe::routing {

/// Selects the kTopK largest keys from the kTopGroups best groups. A group's
/// score is its largest key, or, with a routing bias, the sum of its two
/// largest keys' values.
template <int kGroups, int kTopGroups> struct TopKOfGroups {
  static constexpr bool kGrouped = true;
  static constexpr bool kFromTable = false;
  static_assert(kGroups >= 1 && kGroups <= 32, "kGroups must be 1 to 32");

  /// Returns a bit mask of the kTopGroups best groups. kTwo: a group's score is
  /// the sum of its two largest keys' values.
  template <int kExperts, bool kTwo, int kPerLane>
  static __device__ __forceinline__ unsigned
  keptGroups(const unsigned (&keys)[kPerLane], int lane) {
    static_assert(kExperts % kGroups == 0, "kGroups must divide kExperts");
    constexpr int kSize = kExperts / kGroups;
    constexpr bool kSums = kTwo && kSize > 1;
    unsigned own = 0, ownNext = 0; // lane g holds the keys of group g
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      unsigned best = 0, second = 0;
#pragma unroll
      for (int i = 0; i < kPerLane; ++i) {
        if (i * 32 + 31 < group * kSize || i * 32 >= (group + 1) * kSize)
          continue;
        unsigned key = (i * 32 + lane) / kSize == group ? keys[i] : 0u;
        second = max(second, min(best, key));
        best = max(best, key);
      }
      unsigned top = ptx::warpMaximum(best);
      if constexpr (kSums) {
        unsigned owners = __ballot_sync(0xffffffffu, best == top);
        unsigned next =
            ptx::warpMaximum(lane == __ffs(int(owners)) - 1 ? second : best);
        ownNext = lane == group ? next : ownNext;
      }
      own = lane == group ? top : own;
    }
    if constexpr (kSums)
      own = keyOfLogit(logitOfKey(own) + logitOfKey(ownNext));
    int rank = 0;
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      unsigned its = __shfl_sync(0xffffffffu, own, group);
      rank += its > own || (its == own && group < lane);
    }
    return __ballot_sync(0xffffffffu, lane < kGroups && rank < kTopGroups);
  }

  /// Zeroes the keys of all experts outside the best groups.
  template <int kExperts, bool kTwo, int kPerLane>
  static __device__ __forceinline__ void keepBest(unsigned (&keys)[kPerLane],
                                                  int lane) {
    constexpr int kSize = kExperts / kGroups;
    unsigned kept = keptGroups<kExperts, kTwo>(keys, lane);
#pragma unroll
    for (int i = 0; i < kPerLane; ++i)
      if (i * 32 + lane >= kExperts || !(kept >> (i * 32 + lane) / kSize & 1))
        keys[i] = 0;
  }

  /// True if the group size is a multiple of 32. Then keys[i] belongs to the
  /// same group in all lanes.
  template <int kExperts>
  static constexpr bool kWhole = kExperts / kGroups % 32 == 0;

  /// Gathers the keys of the kept groups into `few`, in group order, so that
  /// each selection round compares fewer keys.
  template <int kExperts, int kPerLane, int kFew>
  static __device__ __forceinline__ void
  gather(unsigned kept, const unsigned (&keys)[kPerLane],
         unsigned (&few)[kFew]) {
    constexpr int kEach = kExperts / kGroups / 32;
#pragma unroll
    for (int j = 0; j < kTopGroups; ++j) {
      int group = __ffs(int(kept)) - 1;
      kept &= kept - 1;
#pragma unroll
      for (int e = 0; e < kEach; ++e) {
        few[j * kEach + e] = keys[j * kEach + e];
#pragma unroll
        for (int other = j + 1; other <= j + kGroups - kTopGroups; ++other)
          few[j * kEach + e] =
              group == other ? keys[other * kEach + e] : few[j * kEach + e];
      }
    }
  }

  /// Returns the expert with index `few` among the experts of the kept groups.
  template <int kExperts>
  static __device__ __forceinline__ int expertOf(unsigned kept, int few) {
    constexpr int kSize = kExperts / kGroups;
#pragma unroll
    for (int j = 0; j < kTopGroups - 1; ++j)
      kept &= few >= (j + 1) * kSize ? kept - 1 : kept;
    return (__ffs(int(kept)) - 1) * kSize + few % kSize;
  }

  template <int kTopK, int kExperts, bool kTwo, int kPerLane>
  static __device__ __forceinline__ unsigned
  selectWords(unsigned (&keys)[kPerLane], int lane) {
    if constexpr (kWhole<kExperts>) {
      unsigned few[kPerLane * kTopGroups / kGroups];
      gather<kExperts>(keptGroups<kExperts, kTwo>(keys, lane), keys, few);
      return TopK::selectWords<kTopK, kExperts, kTwo>(few, lane);
    }
    keepBest<kExperts, kTwo>(keys, lane);
    return TopK::selectWords<kTopK, kExperts, kTwo>(keys, lane);
  }

  template <int kTopK, int kExperts, bool kTwo, int kPerLane>
  static __device__ __forceinline__ void
  select(unsigned (&keys)[kPerLane], int lane, int &expert, float &logit) {
    if constexpr (kWhole<kExperts>) {
      unsigned few[kPerLane * kTopGroups / kGroups];
      unsigned kept = keptGroups<kExperts, kTwo>(keys, lane);
      gather<kExperts>(kept, keys, few);
      TopK::select<kTopK, kExperts, kTwo>(few, lane, expert, logit);
      expert = lane < kTopK ? expertOf<kExperts>(kept, expert) : -1;
      return;
    }
    keepBest<kExperts, kTwo>(keys, lane);
    TopK::select<kTopK, kExperts, kTwo>(keys, lane, expert, logit);
  }
};

/// Selects the kTopK / kGroups largest keys of each group. Lanes receive the
/// selected experts in group order.
template <int kGroups> struct TopKPerGroup {
  static constexpr bool kGrouped = true;
  static constexpr bool kFromTable = false;

  /// Copies the keys of group `group` to `own` and zeroes all other keys.
  template <int kExperts, int kPerLane>
  static __device__ __forceinline__ void
  only(int group, const unsigned (&keys)[kPerLane], unsigned (&own)[kPerLane],
       int lane) {
    static_assert(kExperts % kGroups == 0, "kGroups must divide kExperts");
    constexpr int kSize = kExperts / kGroups;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i)
      own[i] = (i * 32 + lane) / kSize == group ? keys[i] : 0u;
  }

  template <int kTopK, int kExperts, bool kTwo, int kPerLane>
  static __device__ __forceinline__ unsigned
  selectWords(unsigned (&keys)[kPerLane], int lane) {
    constexpr int kEach = kTopK / kGroups;
    static_assert(kTopK % kGroups == 0, "kGroups must divide kTopK");
    unsigned result = 0, own[kPerLane];
#pragma unroll 1
    for (int group = 0; group < kGroups; ++group) {
      only<kExperts>(group, keys, own, lane);
      unsigned word = TopK::selectWords<kEach, kExperts, kTwo>(own, lane);
      word = __shfl_sync(0xffffffffu, word, lane % kEach);
      result = lane / kEach == group ? word : result;
    }
    return result;
  }

  template <int kTopK, int kExperts, bool kTwo, int kPerLane>
  static __device__ __forceinline__ void
  select(unsigned (&keys)[kPerLane], int lane, int &expert, float &logit) {
    constexpr int kEach = kTopK / kGroups;
    static_assert(kTopK % kGroups == 0, "kGroups must divide kTopK");
    expert = -1;
    logit = 0.0f;
    unsigned own[kPerLane];
#pragma unroll 1
    for (int group = 0; group < kGroups; ++group) {
      only<kExperts>(group, keys, own, lane);
      int its;
      float itsLogit;
      TopK::select<kEach, kExperts, kTwo>(own, lane, its, itsLogit);
      its = __shfl_sync(0xffffffffu, its, lane % kEach);
      itsLogit = __shfl_sync(0xffffffffu, itsLogit, lane % kEach);
      expert = lane / kEach == group ? its : expert;
      logit = lane / kEach == group ? itsLogit : logit;
    }
  }
};

} // namespace moe::routing
