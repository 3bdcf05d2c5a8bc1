// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "moe/kernel/activate.cuh"
struct Args { const float * input; const int * offsets; moe::f16 * result; };
struct Config {
  using Args = ::Args;
  static constexpr int kThreads = 256;
  static constexpr bool kProgrammatic = true;
  static constexpr bool kCpAsync = true;
  using Result = moe::f16;
  using Activation = moe::activation::Ungated<moe::activation::GeluTanh>;
  static constexpr int kColumns = 768;
  static constexpr int kExperts = 128;
  static constexpr int kInterleave = 8;
};
static_assert(moe::sharedBytes<Config>() == 0, "manifest and kernel disagree on shared memory");
extern "C" __global__ void __launch_bounds__(256, 1) moec_activate_f16(const __grid_constant__ Args args) { moe::activate<Config>(args); }
