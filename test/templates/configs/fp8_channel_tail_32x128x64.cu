// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// archs: sm_(?!75).*
#include "moe/kernel/grouped_matmul.cuh"
struct Args { const moe::e4m3 * lhs; long long lhs_row_stride; const int * rows; const int4 * tiles; const int * tile_count; const moe::e4m3 * rhs; const float * lhs_scale; const float * rhs_scale; const moe::bf16 * bias; float * result; };
struct Config {
  using Args = ::Args;
  static constexpr int kThreads = 128;
  static constexpr bool kProgrammatic = true;
  static constexpr bool kCpAsync = true;
  using Input = moe::e4m3;
  using Weight = moe::e4m3;
  using Result = float;
  using Quant = moe::quant::Fp8Channel;
  using Activation = moe::activation::Gated<moe::activation::Silu>;
  using Mma = moe::mma::MmaSync<moe::e4m3>;
  struct Schedule { static constexpr int kTileM = 32; static constexpr int kTileN = 128; static constexpr int kTileK = 64; static constexpr int kStages = 3; static constexpr int kWarpsM = 1; static constexpr int kWarpsN = 4; static constexpr int kGroupM = 8; };
  static constexpr int kN = 400;
  static constexpr int kK = 336;
  static constexpr int kExperts = 128;
  static constexpr int kTopK = 8;
  static constexpr bool kGather = true;
  static constexpr bool kBias = true;
  static constexpr int kInterleave = 8;
  static constexpr bool kTilesEarly = false;
};
static_assert(moe::sharedBytes<Config>() == 30720, "manifest and kernel disagree on shared memory");
extern "C" __global__ void __launch_bounds__(128, 2) moec_grouped_matmul_fp8_channel_tail_32x128x64(const __grid_constant__ Args args) { moe::groupedMatmul<Config>(args); }
