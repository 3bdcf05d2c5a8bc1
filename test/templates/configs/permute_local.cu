// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "moe/kernel/permute.cuh"
struct Args { const int * topk_ids; const int * block_counts; int tokens; int * rows; int * positions; int * offsets; int4 * tiles; int * tile_count; int * counts; };
struct Config {
  using Args = ::Args;
  static constexpr int kThreads = 1024;
  static constexpr bool kProgrammatic = true;
  static constexpr bool kCpAsync = true;
  static constexpr int kExperts = 1024;
  static constexpr int kLocalBegin = 512;
  static constexpr int kLocalExperts = 512;
  static constexpr int kTopK = 8;
  static constexpr int kBlockTokens = 256;
  static constexpr int kTileRows = 256;
  static constexpr int kRowStep = 16;
  static constexpr int kCounters = 2;
};
static_assert(moe::sharedBytes<Config>() == 0, "manifest and kernel disagree on shared memory");
extern "C" __global__ void __launch_bounds__(1024, 1) moec_permute_local(const __grid_constant__ Args args) { moe::permute<Config>(args); }
