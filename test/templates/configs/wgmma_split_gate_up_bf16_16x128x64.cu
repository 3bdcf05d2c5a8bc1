// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// archs: sm_90a
#include "moe/kernel/grouped_matmul.cuh"
#include "moe/matmul/atom/wgmma.cuh"
struct Args { const moe::bf16 * lhs; long long lhs_row_stride; const int * rows; int4 * tiles; int * tile_count; moe::TensorMap rhs; moe::bf16 * result; };
struct Config {
  using Args = ::Args;
  static constexpr int kThreads = 384;
  static constexpr bool kProgrammatic = true;
  static constexpr bool kCpAsync = true;
  using Input = moe::bf16;
  using Weight = moe::bf16;
  using Result = moe::bf16;
  using Quant = moe::quant::None;
  using Activation = moe::activation::Gated<moe::activation::Silu>;
  using Mma = moe::mma::Wgmma<moe::bf16>;
  struct Schedule { static constexpr int kTileM = 16; static constexpr int kTileN = 128; static constexpr int kTileK = 64; static constexpr int kStages = 5; static constexpr int kProducerWarps = 4; static constexpr int kConsumerWarps = 8; static constexpr int kProducerRegisters = 40; static constexpr int kConsumerRegisters = 96; static constexpr int kCtasPerSm = 2; static constexpr int kGroupM = 1; };
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
  static constexpr int kSplit = 2;
  static constexpr int kSplitTiles = 33;
};
static_assert(moe::sharedBytes<Config>() == 94864, "manifest and kernel disagree on shared memory");
extern "C" __global__ void __launch_bounds__(384, 2) __cluster_dims__(2, 1, 1) moec_grouped_matmul_wgmma_split(const __grid_constant__ Args args) { moe::groupedMatmul<Config>(args); }
