// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// archs: sm_(?!75).*
#include "moe/kernel/grouped_matmul.cuh"
#include "moe/mma/mma_sync.cuh"
struct Args { const moe::e4m3 * lhs; long long lhs_row_stride; const int * rows; const int4 * tiles; const int * tile_count; const moe::i4 * rhs; const float * lhs_scale; const moe::bf16 * rhs_scale; float * result; };
struct Config {
  using Args = ::Args;
  static constexpr int kThreads = 256;
  static constexpr bool kProgrammatic = true;
  static constexpr bool kCpAsync = true;
  using Input = moe::e4m3;
  using Weight = moe::i4;
  using Result = float;
  using Quant = moe::quant::CodeGroups<128>;
  using Scale = moe::bf16;
  static constexpr int kScaleRows = 1;
  static constexpr int kScaleColumns = 128;
  static constexpr bool kZeroPoint = false;
  static constexpr bool kSecondScale = false;
  static constexpr bool kSecondPerRow = false;
  using Activation = moe::activation::Gated<moe::activation::Silu>;
  using Mma = moe::mma::MmaSync<moe::e4m3>;
  struct Schedule { static constexpr int kTileM = 64; static constexpr int kTileN = 128; static constexpr int kTileK = 64; static constexpr int kStages = 4; static constexpr int kWarpsM = 2; static constexpr int kWarpsN = 4; static constexpr int kGroupM = 8; };
  static constexpr int kN = 1536;
  static constexpr int kK = 2048;
  static constexpr int kExperts = 128;
  static constexpr int kPairs = 8;
  static constexpr bool kGather = true;
  static constexpr bool kBias = false;
  static constexpr int kInterleave = 8;
  static constexpr bool kTilesEarly = false;
};
static_assert(moe::sharedBytes<Config>() == 49152, "manifest and kernel disagree on shared memory");
extern "C" __global__ void __launch_bounds__(256, 1) moec_grouped_matmul_int4_w4afp8_gate_up_64x128x64(const __grid_constant__ Args args) { moe::groupedMatmul<Config>(args); }
