// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// archs: sm_(?!75).*
#include "moe/kernel/grouped_matmul.cuh"
#include "moe/mma/mma_sync.cuh"
struct Args { const moe::bf16 * lhs; long long lhs_row_stride; const int * rows; int4 * tiles; int * tile_count; const moe::i8 * rhs; const moe::bf16 * rhs_scale; const moe::bf16 * bias; float * result; };
struct Config {
  using Args = ::Args;
  static constexpr int kThreads = 128;
  static constexpr bool kProgrammatic = true;
  static constexpr bool kCpAsync = true;
  using Input = moe::bf16;
  using Weight = moe::i8;
  using Result = float;
  using Quant = moe::quant::WeightOnly;
  using Scale = moe::bf16;
  static constexpr int kScaleRows = 1;
  static constexpr int kScaleColumns = 0;
  static constexpr bool kZeroPoint = false;
  static constexpr bool kSecondScale = false;
  static constexpr bool kSecondPerRow = false;
  using Activation = moe::activation::None;
  using Mma = moe::mma::MmaSyncSlabs<moe::bf16>;
  struct Schedule { static constexpr int kTileM = 64; static constexpr int kTileN = 128; static constexpr int kTileK = 64; static constexpr int kStages = 4; static constexpr int kWarpsM = 1; static constexpr int kWarpsN = 4; static constexpr int kGroupM = 1; };
  static constexpr int kN = 1984;
  static constexpr int kK = 768;
  static constexpr int kExperts = 128;
  static constexpr int kPairs = 8;
  static constexpr bool kGather = true;
  static constexpr bool kBias = true;
  static constexpr int kInterleave = 0;
  static constexpr bool kTilesEarly = false;
};
static_assert(moe::sharedBytes<Config>() == 66560, "manifest and kernel disagree on shared memory");
extern "C" __global__ void __launch_bounds__(128, 3) moec_mma_sync_slabs_int8_down_f32_64x128x64(const __grid_constant__ Args args) { moe::groupedMatmul<Config>(args); }
