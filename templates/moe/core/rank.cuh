//===- rank.cuh - what a rank has of its own --------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ranks whose shares have equal sizes run the same kernels. What differs comes
// as arguments, where a layer has it:
//   int local_begin   the first expert of the rank (absent: 0)
//   int add_bias      0: another rank adds the bias of the second matmul
//   int add_identity  0: another rank adds what zero experts hand on
//
//===----------------------------------------------------------------------===//

#pragma once

namespace moe {

/// The first expert of this rank.
template <class Args>
__device__ __forceinline__ int localBeginOf(const Args &args) {
  if constexpr (requires { args.local_begin; })
    return args.local_begin;
  else
    return 0;
}

/// The local expert of an expert, or -1.
template <class Config>
__device__ __forceinline__ int localExpertOf(const typename Config::Args &args,
                                             int expert) {
  int local = expert - localBeginOf(args);
  return expert < 0 || local < 0 || local >= Config::kLocalExperts ? -1 : local;
}

/// Whether a run says if the bias is added.
template <class Config>
inline constexpr bool kBiasOfRank =
    requires(const typename Config::Args &args) { args.add_bias; };

/// Whether this rank adds the bias, which the layer has.
template <class Args>
__device__ __forceinline__ bool addsBias(const Args &args) {
  if constexpr (requires { args.add_bias; })
    return args.add_bias != 0;
  else
    return true;
}

/// The bias of an expert, in elements from there on; null where this rank adds
/// none. Only with Config::kBias.
template <class Args>
__device__ __forceinline__ auto *biasOf(const Args &args, long long at) {
  return addsBias(args) ? args.bias + at : nullptr;
}

/// Whether there is a bias behind a pointer of biasOf.
template <class Config, class Bias>
__device__ __forceinline__ bool isBias(const Bias *bias) {
  if constexpr (kBiasOfRank<Config>)
    return bias != nullptr;
  else
    return true;
}

/// Whether this rank adds what zero experts hand on.
template <class Args>
__device__ __forceinline__ bool addsIdentity(const Args &args) {
  if constexpr (requires { args.add_identity; })
    return args.add_identity != 0;
  else
    return true;
}

} // namespace moe
