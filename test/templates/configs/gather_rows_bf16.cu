// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "moe/kernel/gather_rows.cuh"
struct Args { const moe::bf16 * input; const int * positions; moe::bf16 * result; };
struct Config {
  using Args = ::Args;
  static constexpr int kThreads = 256;
  static constexpr bool kProgrammatic = true;
  static constexpr bool kCpAsync = true;
  using Element = moe::bf16;
  static constexpr int kColumns = 768;
  static constexpr int kExperts = 0;
};
static_assert(moe::sharedBytes<Config>() == 0, "manifest and kernel disagree on shared memory");
extern "C" __global__ void __launch_bounds__(256, 1) moec_gather_rows_bf16(const __grid_constant__ Args args) { moe::gatherRows<Config>(args); }
