//===- blocks.cuh - the blocks of tokens that CTAs take ---------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every CTA of kernel permute sums the counts of all blocks. So there are at
// most kMostBlocks of them, which grow with the tokens; 0 is no bound.
//
//===----------------------------------------------------------------------===//

#pragma once

namespace moe::routing {

/// Tokens of a block: the smallest multiple of kBlockTokens with which
/// kMostBlocks suffice.
template <class Config>
__device__ __forceinline__ int blockTokensOf(int tokens) {
  constexpr int kLeast = Config::kBlockTokens;
  if constexpr (Config::kMostBlocks > 0)
    return kLeast * ((tokens - 1) / (kLeast * Config::kMostBlocks) + 1);
  else
    return kLeast;
}

} // namespace moe::routing
