// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// archs: sm_90a
#include "moe/kernel/down_slices.cuh"
struct Args { const moe::bf16 * lhs; const int4 * tiles; int * tile_count; moe::TensorMap rhs; const moe::bf16 * bias; moe::bf16 * partials; const int * positions; const float * topk_weights; int tokens; moe::bf16 * out; };
struct Config {
  using Args = ::Args;
  static constexpr int kThreads = 512;
  static constexpr bool kProgrammatic = true;
  static constexpr bool kCpAsync = true;
  using Input = moe::bf16;
  using Result = moe::bf16;
  using Output = moe::bf16;
  using Quant = moe::quant::None;
  using Activation = moe::activation::None;
  using Mma = moe::mma::Wgmma<moe::bf16>;
  struct Schedule { static constexpr int kTileM = 128; static constexpr int kTileN = 64; static constexpr int kTileK = 64; static constexpr int kStages = 6; static constexpr int kBuffers = 3; static constexpr int kOtherWarpgroups = 2; static constexpr int kProducerRegisters = 88; static constexpr int kConsumerRegisters = 168; static constexpr int kCtasPerSm = 1; };
  static constexpr int kN = 256;
  static constexpr int kK = 136;
  static constexpr int kExperts = 8;
  static constexpr int kTopK = 2;
  static constexpr bool kBias = true;
  static constexpr int kInterleave = 0;
  static constexpr bool kTilesEarly = true;
  static constexpr int kRows = 40;
  static constexpr int kTokens = 6;
};
static_assert(moe::sharedBytes<Config>() == 86240, "manifest and kernel disagree on shared memory");
extern "C" __global__ void __launch_bounds__(512, 1) moec_down_slices_x(const __grid_constant__ Args args) { moe::downSlices<Config>(args); }
