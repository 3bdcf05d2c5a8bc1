// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "moe/kernel/dequantize.cuh"
struct Args { const moe::e4m3 * input; long long input_row_stride; const float * scale; int tokens; moe::f16 * data; };
struct Config {
  using Args = ::Args;
  static constexpr int kThreads = 256;
  static constexpr bool kProgrammatic = true;
  static constexpr bool kCpAsync = true;
  static constexpr int kColumns = 2048;
  static constexpr int kScaleRows = 0;
  static constexpr int kScaleColumns = 0;
  static constexpr bool kSecondPerToken = false;
  static constexpr int kExperts = 128;
};
static_assert(moe::sharedBytes<Config>() == 0, "manifest and kernel disagree on shared memory");
extern "C" __global__ void __launch_bounds__(256, 1) moec_dequantize_e4m3_tensor_f16(const __grid_constant__ Args args) { moe::dequantize<Config>(args); }
