//===- place.cuh - maps chosen experts to their weights ---------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Routing chooses logical experts. This file maps each chosen expert to an
// expert whose weights exist: first to one of its replicas, then by a map to a
// local expert. A token's shared experts follow its chosen experts. Zero
// experts have no weights: kernel `combine` adds the token's input instead.
//
// Optional members of Config: kPhysical (number of experts including replicas;
// absent: kExperts - kZero), kReplicaSlots, kShared (number of shared experts),
// kZero (the last kZero of kExperts are zero experts).
//
// Args, each of which is optional:
//   const int *logical_to_physical: [kExperts, kReplicaSlots]
//   const int *replica_count: [kExperts]
//   const int *expert_map: [kPhysical], the local expert or -1
//   const void *shared_gate: [tokens]
//   ElementCode shared_gate_type: F32, F16 or BF16
//   local_begin: see moe/core/rank.cuh
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

/// The expert index with which any zero expert is replaced.
inline constexpr int kIdentityPlace = -2;

/// The number of (token, expert) pairs per token. The shared experts are last.
template <class Config>
inline constexpr int kPairsOf = Config::kTopK + sharedOf<Config>();

/// The number of experts that have weights, on all ranks together.
template <class Config>
inline constexpr int kPlacesOf = physicalOf<Config>() + sharedOf<Config>();

/// Reads the expert ids that the caller passes: lane k < kTopK receives the
/// token's k-th id. `expert` is -1 if the id is not an expert's index. `shown`
/// is the id itself, or -1 if the id does not fit into 32 bits. kFresh: see
/// routeFew (moe/routing/few.cuh).
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

/// Returns the weight that the caller passes for a token's k-th id, in lane k <
/// kTopK. kFresh: see routeFew (moe/routing/few.cuh).
template <class Config, bool kFresh>
__device__ __forceinline__ float
takeGivenWeight(const typename Config::Args &args, int token, int lane) {
  if (lane >= Config::kTopK)
    return 0.0f;
  return loadFloat<kFresh>(args.given_weights, args.given_weights_type,
                           (long long)token * Config::kTopK + lane);
}

/// Maps a token's experts to experts that have weights. On entry, lane k <
/// kTopK has the k-th `expert`, or -1. The lanes that follow receive the shared
/// experts. On return, `expert` is an expert with weights, kIdentityPlace or
/// -1. `shown` is the expert id that the layer outputs to the caller. kFresh:
/// see routeFew (moe/routing/few.cuh).
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

/// Sets `weight` in the lanes of a token's shared experts: the gate's weight if
/// shared experts have a gate, otherwise 1.
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
