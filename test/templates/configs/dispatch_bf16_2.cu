// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "moe/kernel/dispatch.cuh"
struct Args { const moe::bf16 *x; const int *topk_ids; const float *topk_weights; int tokens; moe::bf16 *received_x; int *received_ids; float *received_weights; unsigned long long *exchange_words; unsigned *exchange_counter; const unsigned long long *peers; moe::ExchangeBlock *status; int rank; };
struct Config {
  using Args = ::Args;
  static constexpr int kThreads = 512;
  static constexpr bool kProgrammatic = true;
  static constexpr bool kCpAsync = true;
  static constexpr int kRanks = 2;
  static constexpr int kExperts = 128;
  static constexpr int kPairs = 8;
  static constexpr int kXBytes = 4096;
  static constexpr int kScaleBytes = 0;
  static constexpr int kSecondScaleBytes = 0;
  static constexpr bool kIdsEarly = false;
};
static_assert(moe::sharedBytes<Config>() == 0, "manifest and kernel disagree on shared memory");
extern "C" __global__ void __launch_bounds__(512, 1) moec_dispatch_bf16_2(const __grid_constant__ Args args) { moe::dispatch<Config>(args); }
