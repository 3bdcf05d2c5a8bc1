// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "moe/kernel/down_combine.cuh"
struct Args { const void * logits; moe::ElementCode logits_type; const void * given_ids; moe::ElementCode given_ids_type; const void * given_weights; moe::ElementCode given_weights_type; const int * valid_tokens; int tokens; const moe::bf16 * lhs; const moe::bf16 * rhs; moe::bf16 * out; };
struct Config {
  using Args = ::Args;
  static constexpr int kThreads = 512;
  static constexpr bool kProgrammatic = true;
  static constexpr bool kCpAsync = true;
  using Score = moe::routing::Softmax;
  using Select = moe::routing::TopK;
  using Normalize = moe::routing::Sum;
  using Scaling = moe::quant::Unscaled;
  using Input = moe::bf16;
  using Weight = moe::bf16;
  using Result = moe::bf16;
  using Quant = moe::quant::None;
  using Activation = moe::activation::None;
  struct Schedule { static constexpr int kStages = 12; static constexpr int kOutputs = 1; };
  static constexpr int kExperts = 128;
  static constexpr int kLocalExperts = 128;
  static constexpr int kTopK = 8;
  static constexpr int kTokens = 4;
  static constexpr int kN = 2048;
  static constexpr int kK = 768;
  static constexpr bool kBias = false;
  static constexpr int kInterleave = 0;
  static constexpr int kScales = 1;
  static constexpr bool kRouteEarly = true;
};
static_assert(moe::sharedBytes<Config>() == 147456, "manifest and kernel disagree on shared memory");
extern "C" __global__ void __launch_bounds__(512, 1) moec_down_combine_bf16(const __grid_constant__ Args args) { moe::downCombine<Config>(args); }
