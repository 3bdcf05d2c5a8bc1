// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "moe/kernel/dequantize.cuh"
struct Args { const moe::e2m1 * input; long long input_row_stride; const moe::e4m3 * scale; const float * second_scale; int tokens; moe::bf16 * data; };
struct Config {
  using Args = ::Args;
  static constexpr int kThreads = 256;
  static constexpr bool kProgrammatic = true;
  static constexpr bool kCpAsync = true;
  static constexpr int kColumns = 2056;
  static constexpr int kScaleRows = 1;
  static constexpr int kScaleColumns = 16;
  static constexpr bool kSecondPerRow = true;
  static constexpr int kExperts = 128;
};
static_assert(moe::sharedBytes<Config>() == 0, "manifest and kernel disagree on shared memory");
extern "C" __global__ void __launch_bounds__(256, 1) moec_dequantize_e2m1_two_levels_bf16(const __grid_constant__ Args args) { moe::dequantize<Config>(args); }
