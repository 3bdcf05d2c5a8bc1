// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "moe/kernel/combine_send_back.cuh"
struct Args { const float *partials; const int *positions; const float *topk_weights; const int *topk_ids; int tokens; moe::bf16 *back; unsigned long long *exchange_words; unsigned *exchange_counter; const unsigned long long *peers; moe::ExchangeBlock *status; int rank; };
struct Config {
  using Args = ::Args;
  static constexpr int kThreads = 256;
  static constexpr bool kProgrammatic = true;
  static constexpr bool kCpAsync = true;
  static constexpr int kRanks = 8;
  static constexpr int kExperts = 256;
  static constexpr int kPairs = 8;
  using Partial = float;
  using Output = moe::bf16;
  static constexpr int kHidden = 7168;
  static constexpr int kColumnBlocks = 1;
  static constexpr bool kPlacesEarly = true;
};
static_assert(moe::sharedBytes<Config>() == 0, "manifest and kernel disagree on shared memory");
extern "C" __global__ void __launch_bounds__(256, 1) moec_combine_send_back_bf16_8(const __grid_constant__ Args args) { moe::combineSendBack<Config>(args); }
