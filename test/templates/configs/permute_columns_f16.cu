// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "moe/kernel/permute_columns.cuh"
struct Args { const moe::f16 * input; long long input_row_stride; const int * offsets; const int * order; moe::f16 * result; };
struct Config {
  using Args = ::Args;
  static constexpr int kThreads = 256;
  static constexpr bool kProgrammatic = true;
  static constexpr bool kCpAsync = true;
  using Element = moe::f16;
  static constexpr int kColumns = 768;
  static constexpr int kExperts = 128;
  static constexpr int kPairs = 1;
};
static_assert(moe::sharedBytes<Config>() == 0, "manifest and kernel disagree on shared memory");
extern "C" __global__ void __launch_bounds__(256, 1) moec_permute_columns_f16(const __grid_constant__ Args args) { moe::permuteColumns<Config>(args); }
