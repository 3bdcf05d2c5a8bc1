// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "moe/kernel/combine_constants.cuh"
struct Args { const moe::bf16 * partials; const int * positions; const float * topk_weights; const int * topk_ids; const float * constants; int tokens; moe::bf16 * out; };
struct Config {
  using Args = ::Args;
  static constexpr int kThreads = 256;
  static constexpr bool kProgrammatic = true;
  static constexpr bool kCpAsync = true;
  using Partial = moe::bf16;
  using Output = moe::bf16;
  static constexpr int kPairs = 8;
  static constexpr int kHidden = 2048;
  static constexpr int kExperts = 48;
  static constexpr int kColumnBlocks = 1;
  static constexpr bool kPlacesEarly = true;
};
static_assert(moe::sharedBytes<Config>() == 0, "manifest and kernel disagree on shared memory");
extern "C" __global__ void __launch_bounds__(256, 1) moec_combine_constants_bf16(const __grid_constant__ Args args) { moe::combineConstants<Config>(args); }
