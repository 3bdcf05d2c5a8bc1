//===- blocks.cuh - the block of tokens of a CTA ----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every CTA of kernel `permute` sums the counts of all blocks. Therefore the
// number of blocks is at most kMostBlocks, and blocks grow with the number of
// tokens. If kMostBlocks is 0, the number of blocks is not limited.
//
//===----------------------------------------------------------------------===//

#pragma once

namespace moe::routing {

/// Returns the number of tokens per block: the smallest multiple of
/// kBlockTokens for which at most kMostBlocks blocks hold all `tokens` tokens.
template <class Config>
__device__ __forceinline__ int blockTokensOf(int tokens) {
  constexpr int kLeast = Config::kBlockTokens;
  if constexpr (Config::kMostBlocks > 0)
    return kLeast * ((tokens - 1) / (kLeast * Config::kMostBlocks) + 1);
  else
    return kLeast;
}

} // namespace moe::routing
