//===- place.cuh - which weights a chosen expert means ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Routing chooses logical experts. Here each becomes one of the experts whose
// weights there are: a replica of it, then what a map of local experts says.
// Behind the chosen ones of each token stand the shared experts. Zero experts
// have no weights: they hand the token on as it is, to kernel combine.
//
// Config, where a layer has them: kPhysical (experts with replicas; absent:
// kExperts - kZero), kReplicaSlots, kShared, kZero (the last so many of
// kExperts).
// Args, where a layer has them: const int *logical_to_physical [kExperts,
// kReplicaSlots], *replica_count [kExperts], *expert_map [kPhysical] (local
// expert or -1), const void *shared_gate [tokens], ElementCode
// shared_gate_type (F32, F16 or BF16); local_begin (core/rank.cuh).
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx.cuh"
#include "moe/core/rank.cuh"
#include "moe/core/types.cuh"
#include "moe/math/score.cuh"

namespace moe::routing {

template <class Config> constexpr int sharedOf() {
  if constexpr (requires { Config::kShared; })
    return Config::kShared;
  else
    return 0;
}

template <class Config> constexpr int zeroOf() {
  if constexpr (requires { Config::kZero; })
    return Config::kZero;
  else
    return 0;
}

template <class Config> constexpr int physicalOf() {
  if constexpr (requires { Config::kPhysical; })
    return Config::kPhysical;
  else
    return Config::kExperts - zeroOf<Config>();
}

/// The place of a zero expert.
inline constexpr int kIdentityPlace = -2;

/// Experts of a token, shared ones last.
template <class Config>
inline constexpr int kPairsOf = Config::kTopK + sharedOf<Config>();

/// Experts whose weights there are, on all ranks together.
template <class Config>
inline constexpr int kPlacesOf = physicalOf<Config>() + sharedOf<Config>();

/// Lane k < kTopK gets the k-th of the experts of a token that the caller
/// gives: `expert` is -1 where the id is not of an expert, `shown` the id as it
/// is, or -1 where 32 bits do not hold it. kFresh: see routeFew.
template <class Config, bool kFresh>
__device__ __forceinline__ void takeGivenIds(const typename Config::Args &args,
                                             int token, int lane, int &expert,
                                             int &shown) {
  if (lane >= Config::kTopK)
    return;
  long long at = (long long)token * Config::kTopK + lane;
  long long id = loadId<kFresh>(args.given_ids, args.given_ids_type, at);
  shown = id == int(id) ? int(id) : -1;
  expert = id >= 0 && id < Config::kExperts ? shown : -1;
}

/// The same of their weights.
template <class Config, bool kFresh>
__device__ __forceinline__ float
takeGivenWeight(const typename Config::Args &args, int token, int lane) {
  if (lane >= Config::kTopK)
    return 0.0f;
  return loadFloat<kFresh>(args.given_weights, args.given_weights_type,
                           (long long)token * Config::kTopK + lane);
}

/// Lane k < kTopK has the k-th `expert` of a token, or -1, lanes behind those
/// get the shared ones: afterwards `expert` is a place of weights, or -1, and
/// `shown` the expert as the caller knows it. kFresh: see routeFew.
template <class Config, bool kFresh>
__device__ __forceinline__ void placeExperts(const typename Config::Args &args,
                                             int token, int lane, bool valid,
                                             int &expert, int &shown) {
  constexpr int kTopK = Config::kTopK;
  auto read = [](const auto *pointer) {
    if constexpr (kFresh)
      return loadFresh(pointer);
    else
      return *pointer;
  };
  if constexpr (zeroOf<Config>() > 0)
    if (lane < kTopK && expert >= physicalOf<Config>())
      expert = kIdentityPlace;
  if constexpr (requires { args.logical_to_physical; })
    if (lane < kTopK && expert >= 0) {
      unsigned choice = unsigned(token) * kTopK + unsigned(lane);
      unsigned count = unsigned(max(
          1, min(read(args.replica_count + expert), Config::kReplicaSlots)));
      int physical = read(args.logical_to_physical +
                          expert * Config::kReplicaSlots + int(choice % count));
      expert = physical >= 0 && physical < physicalOf<Config>() ? physical : -1;
    }
  if constexpr (requires { args.expert_map; })
    if (lane < kTopK && expert >= 0) {
      int local = read(args.expert_map + expert);
      expert = local >= 0 && local < Config::kLocalExperts
                   ? localBeginOf(args) + local
                   : -1;
    }
  if constexpr (sharedOf<Config>() > 0) {
    if (lane < kTopK || lane >= kPairsOf<Config> || !valid)
      return;
    expert = physicalOf<Config>() + lane - kTopK;
    shown = Config::kExperts + lane - kTopK;
  }
}

/// The weights of the shared experts of a token, in the lanes of these.
template <class Config, bool kFresh>
__device__ __forceinline__ void weighShared(const typename Config::Args &args,
                                            int token, int lane, bool valid,
                                            float &weight) {
  if constexpr (sharedOf<Config>() > 0) {
    if (lane < Config::kTopK || lane >= kPairsOf<Config> || !valid)
      return;
    weight = 1.0f;
    if constexpr (requires { args.shared_gate; })
      weight = weightOfGate(
          loadFloat<kFresh>(args.shared_gate, args.shared_gate_type, token));
  }
}

} // namespace moe::routing
