// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "moe/kernel/quantize_weights.cuh"
struct Args { const moe::bf16 * source; unsigned char * destination; const float * scale; int first_expert; int experts; };
struct Config {
  using Args = ::Args;
  static constexpr int kThreads = 256;
  static constexpr bool kProgrammatic = false;
  static constexpr bool kCpAsync = true;
  using Element = moe::bf16;
  using Code = moe::e4m3;
  using Scale = moe::ue8m0;
  using Rule = moe::quant::Ceil;
  static constexpr moe::quant::Shares kShares = moe::quant::Shares::Group;
  static constexpr bool kZeroPoints = false;
  static constexpr int kRows = 1536;
  static constexpr int kColumns = 2048;
  static constexpr int kParts = 2;
  static constexpr bool kAlternate = false;
  static constexpr int kGroupRows = 128;
  static constexpr int kGroupColumns = 128;
  static constexpr int kInterleave = 8;
  static constexpr int kElements = 8;
  static constexpr int kChunksPerCta = 4096;
};
static_assert(moe::sharedBytes<Config>() == 0, "manifest and kernel disagree on shared memory");
extern "C" __global__ void __launch_bounds__(256, 1) moec_pack_codes_e4m3_powers_as_f32_bf16(const __grid_constant__ Args args) { moe::packCodes<Config>(args); }
