// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// archs: sm_100f
#include "moe/kernel/grouped_matmul.cuh"
#include "moe/matmul/atom/tcgen05.cuh"
struct Args { const moe::e4m3 * lhs; long long lhs_row_stride; const int * rows; const int4 * tiles; int * tile_count; const moe::e2m1 * rhs; const moe::ue8m0 * lhs_scale; const moe::ue8m0 * rhs_scale; float * result; };
struct Config {
  using Args = ::Args;
  static constexpr int kThreads = 256;
  static constexpr bool kProgrammatic = true;
  static constexpr bool kCpAsync = true;
  using Input = moe::e4m3;
  using Weight = moe::e2m1;
  using Result = float;
  using Quant = moe::quant::Blocks;
  static constexpr bool kSecondScale = false;
  using Activation = moe::activation::Gated<moe::activation::Silu>;
  using Mma = moe::mma::Tcgen05Scaled<moe::e4m3, moe::ue8m0, moe::e2m1>;
  struct Schedule { static constexpr int kTileM = 64; static constexpr int kTileN = 128; static constexpr int kTileK = 128; static constexpr int kStages = 3; static constexpr int kProducerWarps = 4; static constexpr int kConsumerWarps = 4; static constexpr int kProducerRegisters = 56; static constexpr int kConsumerRegisters = 200; static constexpr int kCtasPerSm = 2; static constexpr int kGroupM = 8; };
  static constexpr int kN = 400;
  static constexpr int kK = 416;
  static constexpr int kExperts = 5;
  static constexpr int kPairs = 2;
  static constexpr bool kGather = true;
  static constexpr bool kBias = false;
  static constexpr int kInterleave = 8;
  static constexpr bool kTilesEarly = false;
  static constexpr int kCursor = 1;
  static constexpr bool kCounts = false;
  static constexpr int kAwaited = 0;
};
static_assert(moe::sharedBytes<Config>() == 85632, "manifest and kernel disagree on shared memory");
extern "C" __global__ void __launch_bounds__(256, 2) moec_grouped_matmul_tcgen05(const __grid_constant__ Args args) { moe::groupedMatmul<Config>(args); }
