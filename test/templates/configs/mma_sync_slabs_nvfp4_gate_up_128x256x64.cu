// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// archs: sm_(?!75).*
#include "moe/kernel/grouped_matmul.cuh"
#include "moe/mma/mma_sync.cuh"
struct Args { const moe::bf16 * lhs; long long lhs_row_stride; const int * rows; int4 * tiles; int * tile_count; const moe::e2m1 * rhs; const moe::e4m3 * rhs_scale; const float * rhs_second_scale; moe::bf16 * result; };
struct Config {
  using Args = ::Args;
  static constexpr int kThreads = 256;
  static constexpr bool kProgrammatic = true;
  static constexpr bool kCpAsync = true;
  using Input = moe::bf16;
  using Weight = moe::e2m1;
  using Result = moe::bf16;
  using Quant = moe::quant::WeightOnly;
  using Scale = moe::e4m3;
  static constexpr int kScaleRows = 1;
  static constexpr int kScaleColumns = 16;
  static constexpr bool kZeroPoint = false;
  static constexpr bool kSecondScale = true;
  static constexpr bool kSecondPerRow = false;
  using Activation = moe::activation::Gated<moe::activation::Silu>;
  using Mma = moe::mma::MmaSyncSlabs<moe::bf16>;
  struct Schedule { static constexpr int kTileM = 128; static constexpr int kTileN = 256; static constexpr int kTileK = 64; static constexpr int kStages = 4; static constexpr int kWarpsM = 1; static constexpr int kWarpsN = 8; static constexpr int kGroupM = 1; };
  static constexpr int kN = 1536;
  static constexpr int kK = 2048;
  static constexpr int kExperts = 128;
  static constexpr int kPairs = 8;
  static constexpr bool kGather = true;
  static constexpr bool kBias = false;
  static constexpr int kInterleave = 8;
  static constexpr bool kTilesEarly = false;
};
static_assert(moe::sharedBytes<Config>() == 102400, "manifest and kernel disagree on shared memory");
extern "C" __global__ void __launch_bounds__(256, 1) moec_mma_sync_slabs_nvfp4_gate_up_128x256x64(const __grid_constant__ Args args) { moe::groupedMatmul<Config>(args); }
