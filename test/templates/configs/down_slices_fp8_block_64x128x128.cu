// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// archs: sm_90a
#include "moe/kernel/down_slices.cuh"
#include "moe/matmul/atom/wgmma.cuh"
struct Args { const moe::e4m3 * lhs; const int4 * tiles; int * tile_count; moe::TensorMap rhs; const float * lhs_scale; const float * rhs_scale; moe::bf16 * partials; const int * positions; const float * topk_weights; int tokens; moe::bf16 * out; };
struct Config {
  using Args = ::Args;
  static constexpr int kThreads = 640;
  static constexpr bool kProgrammatic = true;
  static constexpr bool kCpAsync = true;
  using Input = moe::e4m3;
  using Result = moe::bf16;
  using Output = moe::bf16;
  using Quant = moe::quant::Fp8Block;
  using Activation = moe::activation::None;
  using Mma = moe::mma::Wgmma<moe::e4m3>;
  struct Schedule { static constexpr int kTileM = 64; static constexpr int kTileN = 128; static constexpr int kTileK = 128; static constexpr int kStages = 4; static constexpr int kBuffers = 2; static constexpr int kOtherWarpgroups = 3; static constexpr int kProducerRegisters = 72; static constexpr int kConsumerRegisters = 128; static constexpr int kCtasPerSm = 1; };
  static constexpr int kN = 512;
  static constexpr int kK = 256;
  static constexpr int kExperts = 8;
  static constexpr int kPairs = 4;
  static constexpr bool kBias = false;
  static constexpr int kInterleave = 0;
  static constexpr bool kTilesEarly = true;
  static constexpr int kRows = 64;
  static constexpr int kTokens = 8;
};
static_assert(moe::sharedBytes<Config>() == 103568, "manifest and kernel disagree on shared memory");
extern "C" __global__ void __launch_bounds__(640, 1) moec_down_slices_x(const __grid_constant__ Args args) { moe::downSlices<Config>(args); }
