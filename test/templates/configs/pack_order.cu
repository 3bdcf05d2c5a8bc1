// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "moe/kernel/pack.cuh"
struct Args { const int * source; int * destination; int first_expert; int experts; };
struct Config {
  using Args = ::Args;
  static constexpr int kThreads = 256;
  static constexpr bool kProgrammatic = false;
  static constexpr bool kCpAsync = true;
  static constexpr int kColumns = 2048;
  static constexpr int kGroup = 128;
};
static_assert(moe::sharedBytes<Config>() == 0, "manifest and kernel disagree on shared memory");
extern "C" __global__ void __launch_bounds__(256, 1) moec_pack_order(const __grid_constant__ Args args) { moe::packOrder<Config>(args); }
