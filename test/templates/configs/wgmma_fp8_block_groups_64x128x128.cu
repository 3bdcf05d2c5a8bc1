// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// archs: sm_90a
#include "moe/kernel/grouped_matmul.cuh"
#include "moe/matmul/atom/wgmma.cuh"
struct Args { const moe::e4m3 * lhs; long long lhs_row_stride; const int * rows; const int4 * tiles; int * tile_count; moe::TensorMap rhs; const float * lhs_scale; const float * rhs_scale; moe::e4m3 * data; float * scale; };
struct Config {
  using Args = ::Args;
  static constexpr int kThreads = 384;
  static constexpr bool kProgrammatic = true;
  static constexpr bool kCpAsync = true;
  using Input = moe::e4m3;
  using Weight = moe::e4m3;
  using Result = float;
  using Quant = moe::quant::Fp8Block;
  using Activation = moe::activation::Gated<moe::activation::Silu>;
  using Mma = moe::mma::Wgmma<moe::e4m3>;
  struct Schedule { static constexpr int kTileM = 64; static constexpr int kTileN = 128; static constexpr int kTileK = 128; static constexpr int kStages = 8; static constexpr int kProducerWarps = 4; static constexpr int kConsumerWarps = 8; static constexpr int kProducerRegisters = 56; static constexpr int kConsumerRegisters = 224; static constexpr int kCtasPerSm = 1; static constexpr int kGroupM = 8; };
  static constexpr int kN = 1536;
  static constexpr int kK = 2048;
  static constexpr int kExperts = 128;
  static constexpr int kPairs = 8;
  static constexpr bool kGather = true;
  static constexpr bool kBias = false;
  static constexpr int kInterleave = 8;
  static constexpr bool kTilesEarly = false;
  using Scaling = moe::quant::Group128;
  static constexpr int kScales = 128;
  static constexpr int kCursor = 1;
  static constexpr bool kCounts = false;
  static constexpr int kAwaited = 0;
};
static_assert(moe::sharedBytes<Config>() == 231744, "manifest and kernel disagree on shared memory");
extern "C" __global__ void __launch_bounds__(384, 1) moec_grouped_matmul_wgmma_fp8_block_groups_64x128x128(const __grid_constant__ Args args) { moe::groupedMatmul<Config>(args); }
