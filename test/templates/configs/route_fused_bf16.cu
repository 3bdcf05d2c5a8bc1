// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "moe/kernel/route.cuh"
struct Args { const void * logits; moe::ElementCode logits_type; const void * given_ids; moe::ElementCode given_ids_type; const void * given_weights; moe::ElementCode given_weights_type; const int * valid_tokens; int tokens; int * topk_ids; float * topk_weights; int * ids; float * weights; int * rows; int * positions; int * offsets; int4 * tiles; int * tile_count; int * counts; };
struct Config {
  using Args = ::Args;
  static constexpr int kThreads = 256;
  static constexpr bool kProgrammatic = true;
  static constexpr bool kCpAsync = true;
  using Score = moe::routing::Softmax;
  using Select = moe::routing::TopK;
  using Normalize = moe::routing::Sum;
  static constexpr int kExperts = 128;
  static constexpr int kTopK = 8;
  static constexpr int kBlockTokens = 64;
  static constexpr int kMostBlocks = 0;
  static constexpr bool kPermute = true;
  static constexpr int kCluster = 1;
  static constexpr int kTileRows = 16;
  static constexpr int kRowStep = 16;
  static constexpr int kCounters = 2;
  static constexpr int kLocalExperts = 128;
};
static_assert(moe::sharedBytes<Config>() == 0, "manifest and kernel disagree on shared memory");
extern "C" __global__ void __launch_bounds__(256, 1) moec_route_fused_bf16(const __grid_constant__ Args args) { moe::route<Config>(args); }
