// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// archs: sm_90a
#include "moe/kernel/grouped_matmul.cuh"
#include "moe/matmul/atom/wgmma_rs.cuh"
struct Args { const moe::bf16 * lhs; long long lhs_row_stride; const int * rows; int4 * tiles; int * tile_count; const moe::e2m1 * rhs; const moe::ue8m0 * rhs_scale; moe::bf16 * result; };
struct Config {
  using Args = ::Args;
  static constexpr int kThreads = 384;
  static constexpr bool kProgrammatic = true;
  static constexpr bool kCpAsync = true;
  using Input = moe::bf16;
  using Weight = moe::e2m1;
  using Result = moe::bf16;
  using Quant = moe::quant::WeightOnly;
  using Scale = moe::ue8m0;
  static constexpr int kScaleRows = 1;
  static constexpr int kScaleColumns = 32;
  static constexpr bool kZeroPoint = false;
  static constexpr bool kSecondScale = false;
  static constexpr bool kSecondPerRow = false;
  using Activation = moe::activation::Gated<moe::activation::Silu>;
  using Mma = moe::mma::WgmmaRs<moe::bf16>;
  struct Schedule { static constexpr int kTileM = 64; static constexpr int kTileN = 128; static constexpr int kTileK = 64; static constexpr int kStages = 6; static constexpr int kProducerWarps = 4; static constexpr int kConsumerWarps = 8; static constexpr int kProducerRegisters = 56; static constexpr int kConsumerRegisters = 224; static constexpr int kCtasPerSm = 1; static constexpr int kGroupM = 1; };
  static constexpr int kN = 1536;
  static constexpr int kK = 2048;
  static constexpr int kExperts = 128;
  static constexpr int kPairs = 8;
  static constexpr bool kGather = true;
  static constexpr bool kBias = false;
  static constexpr int kInterleave = 8;
  static constexpr bool kTilesEarly = false;
  static constexpr int kCursor = 1;
  static constexpr bool kCounts = true;
  static constexpr int kAwaited = 0;
};
static_assert(moe::sharedBytes<Config>() == 90272, "manifest and kernel disagree on shared memory");
extern "C" __global__ void __launch_bounds__(384, 1) moec_wgmma_rs_mxfp4_gate_up_64x128x64(const __grid_constant__ Args args) { moe::groupedMatmul<Config>(args); }
