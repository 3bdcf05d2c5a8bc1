//===- rank.cuh - arguments that differ between ranks -----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ranks whose shares (their parts of a layer) have equal sizes run the same
// kernels. The differences are arguments, which are present if the layer needs
// them:
//   int local_begin   the first expert of the rank (absent: 0)
//   int add_bias      0: another rank adds the bias of the second matmul
//   int add_identity  0: another rank adds the outputs of zero experts, which
//                     are the token itself
//
//===----------------------------------------------------------------------===//

#pragma once

namespace moe {

/// Returns the first expert of this rank.
template <class Args>
__device__ __forceinline__ int localBeginOf(const Args &args) {
  if constexpr (requires { args.local_begin; })
    return args.local_begin;
  else
    return 0;
}

/// Returns the index of an expert among the experts of this rank, or -1.
template <class Config>
__device__ __forceinline__ int localExpertOf(const typename Config::Args &args,
                                             int expert) {
  int local = expert - localBeginOf(args);
  return expert < 0 || local < 0 || local >= Config::kLocalExperts ? -1 : local;
}

/// True if the argument add_bias determines at run time which rank adds the
/// bias.
template <class Config>
inline constexpr bool kBiasOfRank =
    requires(const typename Config::Args &args) { args.add_bias; };

/// Returns true if this rank adds the layer's bias.
template <class Args>
__device__ __forceinline__ bool addsBias(const Args &args) {
  if constexpr (requires { args.add_bias; })
    return args.add_bias != 0;
  else
    return true;
}

/// Returns the address of bias element `at`, or null if this rank adds no bias.
/// Needs Config::kBias.
template <class Args>
__device__ __forceinline__ auto *biasOf(const Args &args, long long at) {
  return addsBias(args) ? args.bias + at : nullptr;
}

/// Returns true if `bias`, a result of biasOf, is not null. The result is true
/// at compile time if every rank adds the bias.
template <class Config, class Bias>
__device__ __forceinline__ bool isBias(const Bias *bias) {
  if constexpr (kBiasOfRank<Config>)
    return bias != nullptr;
  else
    return true;
}

/// Returns true if this rank adds the outputs of zero experts.
template <class Args>
__device__ __forceinline__ bool addsIdentity(const Args &args) {
  if constexpr (requires { args.add_identity; })
    return args.add_identity != 0;
  else
    return true;
}

} // namespace moe
