// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "moe/kernel/quantize_weights.cuh"
struct Args { const moe::bf16 * source; unsigned char * destination; const moe::bf16 * scale; int first_expert; int experts; };
struct Config {
  using Args = ::Args;
  static constexpr int kThreads = 256;
  static constexpr bool kProgrammatic = false;
  static constexpr bool kCpAsync = true;
  using Element = moe::bf16;
  using Code = moe::i4;
  using Scale = moe::bf16;
  using Rule = moe::quant::Ceil;
  static constexpr moe::quant::Shares kShares = moe::quant::Shares::Channel;
  static constexpr bool kZeroPoints = true;
  static constexpr int kRows = 2048;
  static constexpr int kColumns = 768;
  static constexpr int kParts = 1;
  static constexpr bool kAlternate = false;
  static constexpr int kGroupRows = 1;
  static constexpr int kGroupColumns = 768;
  static constexpr moe::WeightNumber kNumber = moe::WeightNumber::ZeroPoint;
  static constexpr int kGroupThreads = 32;
};
static_assert(moe::sharedBytes<Config>() == 0, "manifest and kernel disagree on shared memory");
extern "C" __global__ void __launch_bounds__(256, 1) moec_pack_scales_i4_zero_points_bf16(const __grid_constant__ Args args) { moe::packScales<Config>(args); }
