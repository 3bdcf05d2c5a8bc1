// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "moe/kernel/finalize.cuh"
struct Args { const moe::bf16 *partials; const int *topk_ids; int tokens; moe::bf16 *out; unsigned long long *exchange_words; };
struct Config {
  using Args = ::Args;
  static constexpr int kThreads = 128;
  static constexpr bool kProgrammatic = true;
  static constexpr bool kCpAsync = true;
  using Partial = moe::bf16;
  using Output = moe::bf16;
  static constexpr int kRanks = 8;
  static constexpr int kExperts = 0;
  static constexpr int kPairs = 8;
  static constexpr int kHidden = 7168;
  static constexpr int kColumnBlocks = 14;
  static constexpr bool kIdsEarly = true;
};
static_assert(moe::sharedBytes<Config>() == 0, "manifest and kernel disagree on shared memory");
extern "C" __global__ void __launch_bounds__(128, 1) moec_finalize_bf16_8(const __grid_constant__ Args args) { moe::finalize<Config>(args); }
