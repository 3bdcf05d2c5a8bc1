// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// archs: sm_90a
#include "moe/kernel/grouped_matmul.cuh"
#include "moe/matmul/atom/wgmma.cuh"
struct Args { const moe::f16 * lhs; long long lhs_row_stride; const int * rows; const int4 * tiles; int * tile_count; moe::TensorMap rhs; const moe::f16 * bias; moe::f16 * result; };
struct Config {
  using Args = ::Args;
  static constexpr int kThreads = 256;
  static constexpr bool kProgrammatic = true;
  static constexpr bool kCpAsync = true;
  using Input = moe::f16;
  using Weight = moe::f16;
  using Result = moe::f16;
  using Quant = moe::quant::None;
  using Activation = moe::activation::Gated<moe::activation::GeluTanh>;
  using Mma = moe::mma::Wgmma<moe::f16>;
  struct Schedule { static constexpr int kTileM = 64; static constexpr int kTileN = 64; static constexpr int kTileK = 64; static constexpr int kStages = 6; static constexpr int kProducerWarps = 4; static constexpr int kConsumerWarps = 4; static constexpr int kProducerRegisters = 40; static constexpr int kConsumerRegisters = 216; static constexpr int kCtasPerSm = 2; static constexpr int kGroupM = 8; };
  static constexpr int kN = 400;
  static constexpr int kK = 72;
  static constexpr int kExperts = 5;
  static constexpr int kPairs = 2;
  static constexpr bool kGather = true;
  static constexpr bool kBias = true;
  static constexpr int kInterleave = 8;
  static constexpr bool kTilesEarly = false;
  static constexpr int kCursor = 1;
  static constexpr bool kCounts = false;
  static constexpr int kAwaited = 0;
};
static_assert(moe::sharedBytes<Config>() == 103584, "manifest and kernel disagree on shared memory");
extern "C" __global__ void __launch_bounds__(256, 2) moec_grouped_matmul_wgmma_tail(const __grid_constant__ Args args) { moe::groupedMatmul<Config>(args); }
