// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// archs: sm_(?!75).*
#include "moe/kernel/grouped_matmul.cuh"
#include "moe/mma/mma_sync.cuh"
struct Args { const moe::bf16 * lhs; long long lhs_row_stride; const int * rows; const int4 * tiles; const int * tile_count; const moe::e2m1 * rhs; const moe::ue8m0 * rhs_scale; const int * offsets; moe::bf16 * data; };
struct Config {
  using Args = ::Args;
  static constexpr int kThreads = 128;
  static constexpr bool kProgrammatic = true;
  static constexpr bool kCpAsync = true;
  using Input = moe::bf16;
  using Weight = moe::e2m1;
  using Result = float;
  using Quant = moe::quant::WeightOnly;
  using Scale = moe::ue8m0;
  static constexpr int kScaleRows = 1;
  static constexpr int kScaleColumns = 32;
  static constexpr bool kZeroPoint = false;
  static constexpr bool kSecondScale = false;
  static constexpr bool kSecondPerRow = false;
  using Activation = moe::activation::Gated<moe::activation::Silu>;
  using Mma = moe::mma::MmaSync<moe::bf16>;
  struct Schedule { static constexpr int kTileM = 64; static constexpr int kTileN = 64; static constexpr int kTileK = 128; static constexpr int kStages = 3; static constexpr int kWarpsM = 1; static constexpr int kWarpsN = 4; static constexpr int kGroupM = 8; };
  static constexpr int kN = 1536;
  static constexpr int kK = 2048;
  static constexpr int kExperts = 128;
  static constexpr int kPairs = 8;
  static constexpr bool kGather = true;
  static constexpr bool kBias = false;
  static constexpr int kInterleave = 8;
  using Scaling = moe::quant::PowerGroups<moe::e2m1, moe::quant::Even, 32>;
  static constexpr int kScales = 1;
  static constexpr bool kTilesEarly = false;
};
static_assert(moe::sharedBytes<Config>() == 94208, "manifest and kernel disagree on shared memory");
extern "C" __global__ void __launch_bounds__(128, 2) moec_grouped_matmul_mxfp4_emulates_gate_up_64x64x128(const __grid_constant__ Args args) { moe::groupedMatmul<Config>(args); }
