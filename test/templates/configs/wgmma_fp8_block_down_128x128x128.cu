// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// archs: sm_90a
#include "moe/kernel/grouped_matmul.cuh"
#include "moe/matmul/atom/wgmma.cuh"
struct Args { const moe::e4m3 * lhs; long long lhs_row_stride; const int4 * tiles; int * tile_count; moe::TensorMap rhs; const float * lhs_scale; const float * rhs_scale; moe::bf16 * result; };
struct Config {
  using Args = ::Args;
  static constexpr int kThreads = 384;
  static constexpr bool kProgrammatic = true;
  static constexpr bool kCpAsync = true;
  using Input = moe::e4m3;
  using Weight = moe::e4m3;
  using Result = moe::bf16;
  using Quant = moe::quant::Fp8Block;
  using Activation = moe::activation::None;
  using Mma = moe::mma::Wgmma<moe::e4m3>;
  struct Schedule { static constexpr int kTileM = 128; static constexpr int kTileN = 128; static constexpr int kTileK = 128; static constexpr int kStages = 5; static constexpr int kProducerWarps = 4; static constexpr int kConsumerWarps = 8; static constexpr int kProducerRegisters = 56; static constexpr int kConsumerRegisters = 224; static constexpr int kCtasPerSm = 1; static constexpr int kGroupM = 1; };
  static constexpr int kN = 2048;
  static constexpr int kK = 768;
  static constexpr int kExperts = 128;
  static constexpr bool kGather = false;
  static constexpr bool kBias = false;
  static constexpr int kInterleave = 0;
  static constexpr bool kTilesEarly = true;
  static constexpr int kCursor = 2;
  static constexpr bool kCounts = false;
  static constexpr int kAwaited = 6;
};
static_assert(moe::sharedBytes<Config>() == 185056, "manifest and kernel disagree on shared memory");
extern "C" __global__ void __launch_bounds__(384, 1) moec_grouped_matmul_fp8_block_down_128x128x128(const __grid_constant__ Args args) { moe::groupedMatmul<Config>(args); }
