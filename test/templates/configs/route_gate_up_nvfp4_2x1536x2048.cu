// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// archs: sm_90a
#include "moe/kernel/route_gate_up.cuh"

struct Args {
  const void *logits;
  moe::ElementCode logits_type;
  const void *given_ids;
  moe::ElementCode given_ids_type;
  const void *given_weights;
  moe::ElementCode given_weights_type;
  const int *valid_tokens;
  int tokens;
  int *ids;
  float *weights;
  int *counts;
  const moe::bf16 *lhs;
  long long lhs_row_stride;
  const moe::e2m1 *rhs;
  const moe::e4m3 *rhs_scale;
  const float *rhs_second_scale;
  moe::bf16 *result;
};
static_assert(sizeof(Args) == 136 &&
                  __INTADDR__(&((Args *)0)->logits) == 0 &&
                  __INTADDR__(&((Args *)0)->logits_type) == 8 &&
                  __INTADDR__(&((Args *)0)->given_ids) == 16 &&
                  __INTADDR__(&((Args *)0)->given_ids_type) == 24 &&
                  __INTADDR__(&((Args *)0)->given_weights) == 32 &&
                  __INTADDR__(&((Args *)0)->given_weights_type) == 40 &&
                  __INTADDR__(&((Args *)0)->valid_tokens) == 48 &&
                  __INTADDR__(&((Args *)0)->tokens) == 56 &&
                  __INTADDR__(&((Args *)0)->ids) == 64 &&
                  __INTADDR__(&((Args *)0)->weights) == 72 &&
                  __INTADDR__(&((Args *)0)->counts) == 80 &&
                  __INTADDR__(&((Args *)0)->lhs) == 88 &&
                  __INTADDR__(&((Args *)0)->lhs_row_stride) == 96 &&
                  __INTADDR__(&((Args *)0)->rhs) == 104 &&
                  __INTADDR__(&((Args *)0)->rhs_scale) == 112 &&
                  __INTADDR__(&((Args *)0)->rhs_second_scale) == 120 &&
                  __INTADDR__(&((Args *)0)->result) == 128,
              "manifest and kernel disagree on the argument block");
static_assert(int(moe::ElementCode::F32) == 0 &&
                  int(moe::ElementCode::F16) == 1 &&
                  int(moe::ElementCode::BF16) == 2 &&
                  int(moe::ElementCode::I64) == 3 &&
                  int(moe::ElementCode::I32) == 4,
              "manifest and kernel disagree on the codes of element types");

struct Config {
  using Args = ::Args;
  static constexpr int kThreads = 128;
  static constexpr bool kProgrammatic = true;
  static constexpr bool kCpAsync = true;
  using Score = moe::routing::Softmax;
  using Select = moe::routing::TopK;
  using Normalize = moe::routing::Sum;
  using Scaling = moe::quant::Unscaled;
  using Input = moe::bf16;
  using Weight = moe::e2m1;
  using Result = moe::bf16;
  using Quant = moe::quant::WeightOnly;
  using Scale = moe::e4m3;
  static constexpr int kScaleRows = 1;
  static constexpr int kScaleColumns = 16;
  static constexpr bool kZeroPoint = false;
  static constexpr bool kSecondScale = true;
  static constexpr bool kSecondPerRow = false;
  using Activation = moe::activation::Gated<moe::activation::Silu>;
  struct Schedule {
    static constexpr int kStages = 2;
    static constexpr int kUnitRows = 64;
  };
  static constexpr int kExperts = 128;
  static constexpr int kLocalExperts = 128;
  static constexpr int kTopK = 8;
  static constexpr int kTokens = 2;
  static constexpr int kN = 1536;
  static constexpr int kK = 2048;
  static constexpr bool kBias = false;
  static constexpr int kInterleave = 8;
  static constexpr int kScales = 1;
};

static_assert(moe::sharedBytes<Config>() == 24832,
              "manifest and kernel disagree on shared memory");

extern "C" __global__ void __launch_bounds__(128, 4)
moec_route_gate_up_nvfp4_w4a16_2_78f981f9(const __grid_constant__ Args args) {
  moe::routeGateUp<Config>(args);
}
