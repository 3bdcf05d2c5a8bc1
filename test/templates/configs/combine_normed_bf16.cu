// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "moe/kernel/combine_normed.cuh"
struct Args { const moe::bf16 * partials; const int * positions; const float * topk_weights; const float * norm_weight; int tokens; moe::bf16 * out; };
struct Config {
  using Args = ::Args;
  static constexpr int kThreads = 512;
  static constexpr bool kProgrammatic = true;
  static constexpr bool kCpAsync = true;
  using Partial = moe::bf16;
  using Output = moe::bf16;
  static constexpr int kPairs = 8;
  static constexpr int kHidden = 4096;
  static constexpr bool kPlacesEarly = true;
  static constexpr float kEpsilon = 0x1.5798eep-27f;
};
static_assert(moe::sharedBytes<Config>() == 0, "manifest and kernel disagree on shared memory");
extern "C" __global__ void __launch_bounds__(512, 2) moec_combine_normed_bf16(const __grid_constant__ Args args) { moe::combineNormed<Config>(args); }
