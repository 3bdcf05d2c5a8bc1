// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "moe/kernel/shared_rows.cuh"
struct Args { const int * valid_tokens; int tokens; const void * shared_gate; moe::ElementCode shared_gate_type; int4 * tiles; int * tile_count; int * offsets; int * positions; float * topk_weights; };
struct Config {
  using Args = ::Args;
  static constexpr int kThreads = 256;
  static constexpr bool kProgrammatic = true;
  static constexpr bool kCpAsync = true;
  static constexpr int kTileRows = 64;
  static constexpr int kRowStep = 16;
};
static_assert(moe::sharedBytes<Config>() == 0, "manifest and kernel disagree on shared memory");
extern "C" __global__ void __launch_bounds__(256, 1) moec_shared_rows_gate(const __grid_constant__ Args args) { moe::sharedRows<Config>(args); }
