// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "moe/kernel/grouped_matmul.cuh"
struct Args { const moe::e4m3 * lhs; long long lhs_row_stride; const int4 * tiles; const int * tile_count; const moe::i4 * rhs; const float * lhs_scale; const moe::bf16 * rhs_scale; const moe::bf16 * bias; moe::bf16 * result; };
struct Config {
  using Args = ::Args;
  static constexpr int kThreads = 256;
  static constexpr bool kProgrammatic = true;
  static constexpr bool kCpAsync = true;
  using Input = moe::e4m3;
  using Weight = moe::i4;
  using Result = moe::bf16;
  using Quant = moe::quant::CodeChannel<128>;
  using Scale = moe::bf16;
  static constexpr int kScaleRows = 1;
  static constexpr int kScaleColumns = 0;
  static constexpr bool kZeroPoint = false;
  static constexpr bool kSecondScale = false;
  using Activation = moe::activation::None;
  using Mma = moe::mma::Simt<moe::e4m3>;
  struct Schedule { static constexpr int kTileM = 128; static constexpr int kTileN = 32; static constexpr int kTileK = 64; static constexpr int kStages = 2; static constexpr int kWarpsM = 4; static constexpr int kWarpsN = 2; static constexpr int kGroupM = 8; };
  static constexpr int kN = 400;
  static constexpr int kK = 336;
  static constexpr int kExperts = 128;
  static constexpr int kTopK = 8;
  static constexpr bool kGather = false;
  static constexpr bool kBias = true;
  static constexpr int kInterleave = 0;
  static constexpr bool kTilesEarly = true;
};
static_assert(moe::sharedBytes<Config>() == 22528, "manifest and kernel disagree on shared memory");
extern "C" __global__ void __launch_bounds__(256, 1) moec_grouped_matmul_int4_w4afp8_channel_simt_down_128(const __grid_constant__ Args args) { moe::groupedMatmul<Config>(args); }
