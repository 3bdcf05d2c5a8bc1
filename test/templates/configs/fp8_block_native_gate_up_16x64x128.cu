// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// archs: sm_89|sm_120a
#include "moe/kernel/grouped_matmul.cuh"
struct Args { const moe::e4m3 * lhs; long long lhs_row_stride; const int * rows; const int4 * tiles; const int * tile_count; const moe::e4m3 * rhs; const float * lhs_scale; const float * rhs_scale; float * result; };
struct Config {
  using Args = ::Args;
  static constexpr int kThreads = 128;
  static constexpr bool kProgrammatic = true;
  static constexpr bool kCpAsync = true;
  using Input = moe::e4m3;
  using Weight = moe::e4m3;
  using Result = float;
  using Quant = moe::quant::Fp8Block;
  using Activation = moe::activation::Gated<moe::activation::Silu>;
  using Mma = moe::mma::MmaSync<moe::e4m3, true, true>;
  struct Schedule { static constexpr int kTileM = 16; static constexpr int kTileN = 64; static constexpr int kTileK = 128; static constexpr int kStages = 4; static constexpr int kWarpsM = 1; static constexpr int kWarpsN = 4; static constexpr int kGroupM = 8; };
  static constexpr int kN = 1536;
  static constexpr int kK = 2048;
  static constexpr int kExperts = 128;
  static constexpr int kTopK = 8;
  static constexpr bool kGather = true;
  static constexpr bool kBias = false;
  static constexpr int kInterleave = 8;
  static constexpr bool kTilesEarly = false;
};
static_assert(moe::sharedBytes<Config>() == 40960, "manifest and kernel disagree on shared memory");
extern "C" __global__ void __launch_bounds__(128, 3) moec_grouped_matmul_fp8_block_gate_up_16x64x128(const __grid_constant__ Args args) { moe::groupedMatmul<Config>(args); }
