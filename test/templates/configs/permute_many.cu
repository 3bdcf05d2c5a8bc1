// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "moe/kernel/permute.cuh"
struct Args { const int * topk_ids; const int * block_counts; int local_begin; int tokens; int * rows; int * positions; int * offsets; int4 * tiles; int * tile_count; int * counts; };
struct Config {
  using Args = ::Args;
  static constexpr int kThreads = 1024;
  static constexpr bool kProgrammatic = true;
  static constexpr bool kCpAsync = true;
  static constexpr int kExperts = 384;
  static constexpr int kLocalExperts = 48;
  static constexpr int kPairs = 8;
  static constexpr int kBlockTokens = 64;
  static constexpr int kMostBlocks = 256;
  static constexpr int kTileRows = 256;
  static constexpr int kRowStep = 8;
  static constexpr int kCounters = 2;
};
static_assert(moe::sharedBytes<Config>() == 0, "manifest and kernel disagree on shared memory");
extern "C" __global__ void __launch_bounds__(1024, 1) moec_permute_q(const __grid_constant__ Args args) { moe::permute<Config>(args); }
