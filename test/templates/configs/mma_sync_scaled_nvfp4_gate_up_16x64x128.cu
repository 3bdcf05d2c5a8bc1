// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// archs: sm_12[01][af]
#include "moe/kernel/grouped_matmul.cuh"
#include "moe/matmul/atom/mma_sync_scaled.cuh"
struct Args { const moe::e2m1x2 * lhs; long long lhs_row_stride; const int * rows; const int4 * tiles; const int * tile_count; const moe::e2m1x2 * rhs; const moe::e4m3 * lhs_scale; const moe::e4m3 * rhs_scale; const float * rhs_second_scale; const float * lhs_second_scale; moe::bf16 * result; };
struct Config {
  using Args = ::Args;
  static constexpr int kThreads = 128;
  static constexpr bool kProgrammatic = true;
  static constexpr bool kCpAsync = true;
  using Input = moe::e2m1x2;
  using Weight = moe::e2m1x2;
  using Result = moe::bf16;
  using Quant = moe::quant::Blocks;
  static constexpr bool kSecondScale = true;
  static constexpr int kLhsSecondScales = 8;
  using Activation = moe::activation::Gated<moe::activation::Silu>;
  using Mma = moe::mma::MmaSyncScaled<moe::e2m1x2, moe::e4m3, moe::e2m1x2>;
  struct Schedule { static constexpr int kTileM = 16; static constexpr int kTileN = 64; static constexpr int kTileK = 128; static constexpr int kStages = 4; static constexpr int kWarpsM = 1; static constexpr int kWarpsN = 4; static constexpr int kGroupM = 1; };
  static constexpr int kN = 1536;
  static constexpr int kK = 1024;
  static constexpr int kExperts = 128;
  static constexpr int kPairs = 8;
  static constexpr bool kGather = true;
  static constexpr bool kBias = false;
  static constexpr int kInterleave = 8;
  static constexpr bool kTilesEarly = false;
};
static_assert(moe::sharedBytes<Config>() == 46080, "manifest and kernel disagree on shared memory");
extern "C" __global__ void __launch_bounds__(128, 2) moec_grouped_matmul_nvfp4_16x64x128(const __grid_constant__ Args args) { moe::groupedMatmul<Config>(args); }
