// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "moe/kernel/quantize.cuh"
struct Args { const moe::bf16 * input; long long input_row_stride; int tokens; moe::e4m3 * data; float * scale; };
struct Config {
  using Args = ::Args;
  static constexpr int kThreads = 256;
  static constexpr bool kProgrammatic = true;
  static constexpr bool kCpAsync = true;
  using Input = moe::bf16;
  using Scaling = moe::quant::PowerGroup128;
  static constexpr int kColumns = 2064;
  static constexpr bool kByOffsets = false;
  static constexpr int kExperts = 128;
  static constexpr int kScales = 128;
  static constexpr int kBlockRows = 16;
};
static_assert(moe::sharedBytes<Config>() == 0, "manifest and kernel disagree on shared memory");
extern "C" __global__ void __launch_bounds__(256, 1) moec_quantize_quantize_group_powers_bf16(const __grid_constant__ Args args) { moe::quantize<Config>(args); }
