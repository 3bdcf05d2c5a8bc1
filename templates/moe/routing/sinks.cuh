//===- sinks.cuh - experts that every token uses ----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The last experts of a layer (sinks) take no part in the selection. Each token
// uses them in addition to its selected experts, after which they are listed.
// One warp selects for one token. The keys are described in
// moe/routing/select.cuh. Only kernels of layers with sinks include this file.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/routing/select.cuh"

namespace moe::routing {

/// Selects kTopK - kSinks of the first kExperts - kSinks experts by Select, and
/// then the last kSinks experts in index order.
template <class Select, int kSinks> struct WithSinks {
  static constexpr bool kGrouped = false;
  static constexpr bool kFromTable = false;
  static_assert(!Select::kGrouped && !Select::kFromTable,
                "sinks cannot be combined with groups or tables");

  template <int kTopK, int kExperts, bool kTwo, int kPerLane>
  static __device__ __forceinline__ unsigned
  selectWords(unsigned (&keys)[kPerLane], int lane) {
    unsigned sinks = takeSinks<kTopK, kExperts>(keys, lane);
    unsigned selected =
        Select::template selectWords<kTopK - kSinks, kExperts, kTwo>(keys,
                                                                     lane);
    return lane < kTopK - kSinks ? selected : sinks;
  }

  template <int kTopK, int kExperts, bool kTwo, int kPerLane>
  static __device__ __forceinline__ void
  select(unsigned (&keys)[kPerLane], int lane, int &expert, float &logit) {
    unsigned sinks = takeSinks<kTopK, kExperts>(keys, lane);
    Select::template select<kTopK - kSinks, kExperts, kTwo>(keys, lane, expert,
                                                            logit);
    if (lane < kTopK - kSinks || lane >= kTopK)
      return;
    expert = kExperts - kTopK + lane;
    logit = logitOfKey(sinks);
  }

private:
  /// Moves the key of the i-th sink to lane kTopK - kSinks + i and zeroes the
  /// keys of all sinks.
  template <int kTopK, int kExperts, int kPerLane>
  static __device__ __forceinline__ unsigned
  takeSinks(unsigned (&keys)[kPerLane], int lane) {
    static_assert(kSinks >= 1 && kSinks < kTopK && kTopK <= 32 &&
                      kTopK <= kExperts,
                  "kSinks must be 1 to kTopK - 1");
    unsigned own = 0;
#pragma unroll
    for (int i = 0; i < kSinks; ++i) {
      constexpr int kFirst = kExperts - kSinks;
      unsigned its =
          __shfl_sync(0xffffffffu, keys[(kFirst + i) / 32], (kFirst + i) % 32);
      own = lane == kTopK - kSinks + i ? its : own;
    }
#pragma unroll
    for (int i = 0; i < kPerLane; ++i)
      keys[i] = i * 32 + lane < kExperts - kSinks ? keys[i] : 0u;
    return own;
  }
};

} // namespace moe::routing
