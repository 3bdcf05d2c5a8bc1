// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "moe/kernel/route_gate_up.cuh"
struct Args { const void * logits; moe::ElementCode logits_type; const void * given_ids; moe::ElementCode given_ids_type; const void * given_weights; moe::ElementCode given_weights_type; const int * valid_tokens; int tokens; int * ids; float * weights; int * counts; const moe::bf16 * lhs; long long lhs_row_stride; const moe::e4m3 * rhs; const float * rhs_scale; float * result; };
struct Config {
  using Args = ::Args;
  static constexpr int kThreads = 512;
  static constexpr bool kProgrammatic = true;
  static constexpr bool kCpAsync = true;
  using Score = moe::routing::Softmax;
  using Select = moe::routing::TopK;
  using Normalize = moe::routing::Sum;
  using Scaling = moe::quant::DynamicTensor;
  using Input = moe::bf16;
  using Weight = moe::e4m3;
  using Result = float;
  using Quant = moe::quant::Fp8Tensor;
  using Activation = moe::activation::Ungated<moe::activation::Silu>;
  struct Schedule { static constexpr int kStages = 6; static constexpr int kOutputs = 1; };
  static constexpr int kExperts = 1024;
  static constexpr int kLocalBegin = 0;
  static constexpr int kLocalExperts = 1024;
  static constexpr int kTopK = 8;
  static constexpr int kTokens = 4;
  static constexpr int kN = 768;
  static constexpr int kK = 2048;
  static constexpr bool kBias = false;
  static constexpr int kInterleave = 0;
  static constexpr int kScales = 1;
};
static_assert(moe::sharedBytes<Config>() == 69648, "manifest and kernel disagree on shared memory");
extern "C" __global__ void __launch_bounds__(512, 1) moec_route_gate_up_fp8_tensor_dynamic_many(const __grid_constant__ Args args) { moe::routeGateUp<Config>(args); }
