// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "moe/kernel/down_combine.cuh"
struct Args { const void * logits; moe::ElementCode logits_type; const void * given_ids; moe::ElementCode given_ids_type; const void * given_weights; moe::ElementCode given_weights_type; const int * valid_tokens; int tokens; const float * lhs; const float * rhs; const float * bias; float * out; };
struct Config {
  using Args = ::Args;
  static constexpr int kThreads = 512;
  static constexpr bool kProgrammatic = true;
  static constexpr bool kCpAsync = true;
  using Score = moe::routing::Softmax;
  using Select = moe::routing::TopK;
  using Normalize = moe::routing::Sum;
  using Scaling = moe::quant::Unscaled;
  using Input = float;
  using Weight = float;
  using Result = float;
  using Quant = moe::quant::None;
  using Activation = moe::activation::None;
  struct Schedule { static constexpr int kStages = 12; static constexpr int kOutputs = 1; };
  static constexpr int kExperts = 7;
  static constexpr int kLocalBegin = 0;
  static constexpr int kLocalExperts = 7;
  static constexpr int kTopK = 2;
  static constexpr int kTokens = 4;
  static constexpr int kN = 104;
  static constexpr int kK = 40;
  static constexpr bool kBias = true;
  static constexpr int kInterleave = 0;
  static constexpr int kScales = 1;
  static constexpr bool kRouteEarly = true;
};
static_assert(moe::sharedBytes<Config>() == 99584, "manifest and kernel disagree on shared memory");
extern "C" __global__ void __launch_bounds__(512, 1) moec_down_combine_f32_bias(const __grid_constant__ Args args) { moe::downCombine<Config>(args); }
