// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "moe/kernel/grouped_matmul.cuh"
struct Args { const float * lhs; long long lhs_row_stride; const int * rows; const int4 * tiles; const int * tile_count; const float * rhs; float * result; };
struct Config {
  using Args = ::Args;
  static constexpr int kThreads = 128;
  static constexpr bool kProgrammatic = true;
  static constexpr bool kCpAsync = true;
  using Input = float;
  using Weight = float;
  using Result = float;
  using Quant = moe::quant::None;
  using Activation = moe::activation::Gated<moe::activation::Silu>;
  using Mma = moe::mma::Simt<float>;
  struct Schedule { static constexpr int kTileM = 32; static constexpr int kTileN = 64; static constexpr int kTileK = 32; static constexpr int kStages = 3; static constexpr int kWarpsM = 2; static constexpr int kWarpsN = 2; static constexpr int kGroupM = 8; };
  static constexpr int kN = 1536;
  static constexpr int kK = 2048;
  static constexpr int kExperts = 128;
  static constexpr int kPairs = 8;
  static constexpr bool kGather = true;
  static constexpr bool kBias = false;
  static constexpr int kInterleave = 8;
  static constexpr bool kTilesEarly = false;
};
static_assert(moe::sharedBytes<Config>() == 36864, "manifest and kernel disagree on shared memory");
extern "C" __global__ void __launch_bounds__(128, 1) moec_grouped_matmul_simt_f32(const __grid_constant__ Args args) { moe::groupedMatmul<Config>(args); }
