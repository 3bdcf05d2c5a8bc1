//===- place.cuh - which weights a chosen expert means ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Routing chooses logical experts. Here each becomes one of the experts whose
// weights there are: a replica of it, then what a map of local experts says.
// Behind the chosen ones each token takes the shared experts.
//
// Config, where a layer has them: kPhysical (experts with replicas; absent:
// kExperts), kReplicaSlots, kShared.
// Args, where a layer has them: const int *logical_to_physical [kExperts,
// kReplicaSlots], *replica_count [kExperts], *expert_map [kPhysical] (local
// expert or -1), const Logits *shared_gate [tokens].
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx.cuh"
#include "moe/core/types.cuh"

namespace moe::routing {

template <class Config> constexpr int sharedOf() {
  if constexpr (requires { Config::kShared; })
    return Config::kShared;
  else
    return 0;
}

template <class Config> constexpr int physicalOf() {
  if constexpr (requires { Config::kPhysical; })
    return Config::kPhysical;
  else
    return Config::kExperts;
}

/// Experts of a token, shared ones last.
template <class Config>
inline constexpr int kPairsOf = Config::kTopK + sharedOf<Config>();

/// Experts whose weights there are, on all ranks together.
template <class Config>
inline constexpr int kPlacesOf = physicalOf<Config>() + sharedOf<Config>();

/// Lane k < kTopK has the k-th `expert` of a token, or -1, lanes behind those
/// get the shared ones: afterwards `expert` is a place of weights, or -1, and
/// `shown` the expert as the caller knows it. kFresh: see routeFew.
template <class Config, bool kFresh>
__device__ __forceinline__ void
placeToken(const typename Config::Args &args, int token, int lane, bool valid,
           int &expert, int &shown, float &weight) {
  constexpr int kTopK = Config::kTopK;
  auto read = [](const auto *pointer) {
    if constexpr (kFresh)
      return loadFresh(pointer);
    else
      return *pointer;
  };
  if constexpr (requires { args.logical_to_physical; })
    if (lane < kTopK && expert >= 0) {
      unsigned pair = unsigned(token) * kTopK + unsigned(lane);
      unsigned count = unsigned(max(
          1, min(read(args.replica_count + expert), Config::kReplicaSlots)));
      int physical = read(args.logical_to_physical +
                          expert * Config::kReplicaSlots + int(pair % count));
      expert = physical >= 0 && physical < physicalOf<Config>() ? physical : -1;
    }
  if constexpr (requires { args.expert_map; })
    if (lane < kTopK && expert >= 0) {
      int local = read(args.expert_map + expert);
      expert = local >= 0 && local < Config::kLocalExperts
                   ? Config::kLocalBegin + local
                   : -1;
    }
  if constexpr (sharedOf<Config>() > 0) {
    if (lane < kTopK || lane >= kPairsOf<Config> || !valid)
      return;
    expert = physicalOf<Config>() + lane - kTopK;
    shown = Config::kExperts + lane - kTopK;
    weight = 1.0f;
    if constexpr (requires { args.shared_gate; })
      weight = 1.0f / (1.0f + expf(-toFloat(read(args.shared_gate + token))));
  }
}

} // namespace moe::routing
