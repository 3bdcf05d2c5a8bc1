// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "moe/kernel/quantize_weights.cuh"
struct Args { const float * source; moe::ue8m0 * destination; int first_expert; int experts; };
struct Config {
  using Args = ::Args;
  static constexpr int kThreads = 256;
  static constexpr bool kProgrammatic = false;
  static constexpr bool kCpAsync = true;
  using Element = float;
  using Code = moe::e2m3;
  using Scale = moe::ue8m0;
  using Rule = moe::quant::Ceil;
  static constexpr moe::quant::Shares kShares = moe::quant::Shares::Group;
  static constexpr bool kZeroPoints = false;
  static constexpr int kRows = 2048;
  static constexpr int kColumns = 2896;
  static constexpr int kParts = 1;
  static constexpr bool kAlternate = false;
  static constexpr int kGroupRows = 1;
  static constexpr int kGroupColumns = 32;
  static constexpr moe::WeightNumber kNumber = moe::WeightNumber::Scale;
  static constexpr int kGroupThreads = 8;
};
static_assert(moe::sharedBytes<Config>() == 0, "manifest and kernel disagree on shared memory");
extern "C" __global__ void __launch_bounds__(256, 1) moec_pack_scales_e2m3_power_f32(const __grid_constant__ Args args) { moe::packScales<Config>(args); }
