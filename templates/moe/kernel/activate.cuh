//===- activate.cuh - the activation as its own kernel ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// result = activation(input), for backends that do not fuse the activation. One
// CTA computes one row. Rows past the last expert's end are not written.
//
// Args, in order. The condition for the presence of an argument is in brackets.
//   input: f32 [rows, kColumns]
//   offsets: int [experts + 1], the first row of each expert
//   addend: [pairs, kColumns], gates before ups; row rows[r] is added to row r;
//     null: no addend [if the layer has adapters]
//   rows: int [rows], the pair index of each sorted row [if the layer has
//     adapters]
//   activation parameters of each expert: see moe/core/activation_numbers.cuh
//     [optional]
//   result: Result [rows, kColumns / 2 if gated, else kColumns]
//
// Grid.x: capacity of rows.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/activation_numbers.cuh"
#include "moe/core/concepts.cuh"
#include "moe/core/pdl.cuh"
#include "moe/core/sorted_rows.cuh"
#include "moe/core/types.cuh"

namespace moe {

template <class Config> constexpr bool checkActivateConfig() {
  checkCommonConfig<Config>();
  MOE_REQUIRE_TYPE(Config, Result, "element type of the result");
  MOE_REQUIRE_TYPE(Config, Activation, "activation policy");
  MOE_REQUIRE_VALUE(Config, kColumns, "columns of the input");
  MOE_REQUIRE_VALUE(Config, kExperts, "experts of this rank");
  MOE_REQUIRE_VALUE(Config, kInterleave,
                    "columns of an interleaved gate or up block, or 0");
  static_assert(checkActivation<typename Config::Activation>());
  return true;
}

/// Returns the dynamic shared memory of the kernel in bytes, 0.
template <class Config> constexpr int sharedBytes() {
  static_assert(checkActivateConfig<Config>());
  return 0;
}

namespace detail {

/// Returns the expert of a sorted row, or 0 if no activation parameter depends
/// on the expert.
template <class Config>
__device__ __forceinline__ int expertOf(const int *offsets, int row) {
  if constexpr (requires { requires Config::Activation::kOfExpert; })
    return expertOfRow<Config::kExperts>(offsets, row);
  return 0;
}

} // namespace detail

template <class Config>
__device__ __forceinline__ void activate(const typename Config::Args &args) {
  static_assert(checkActivateConfig<Config>());
  using Activation = typename Config::Activation;
  using Result = typename Config::Result;
  constexpr int kColumns =
      Activation::kGated ? Config::kColumns / 2 : Config::kColumns;
  awaitPredecessor<Config>();
  int row = int(blockIdx.x);
  if (row >= args.offsets[Config::kExperts])
    return;
  const float *input = args.input + (long long)row * Config::kColumns;
  Result *result = args.result + (long long)row * kColumns;
  auto activation =
      activationOf<Config>(args, detail::expertOf<Config>(args.offsets, row));
  // Returns `value` plus column c of the row's addend (from LoRA adapters). In
  // the addend all gates precede all ups, whatever the order of the weights.
  auto added = [&](float value, int c) {
    if constexpr (requires { args.addend; })
      if (args.addend)
        value += toFloat(
            args.addend[(long long)args.rows[row] * Config::kColumns + c]);
    return value;
  };
#pragma unroll 4
  for (int c = int(threadIdx.x); c < kColumns; c += Config::kThreads) {
    float value;
    if constexpr (!Activation::kGated) {
      value = activation.apply(added(input[c], c));
    } else if constexpr (Config::kInterleave == 0) {
      value = activation.apply(added(input[c], c),
                               added(input[kColumns + c], kColumns + c));
    } else {
      constexpr int kBy = Config::kInterleave;
      int gate = c / kBy * 2 * kBy + c % kBy;
      value = activation.apply(added(input[gate], c),
                               added(input[gate + kBy], kColumns + c));
    }
    result[c] = fromFloat<Result>(value);
  }
}

} // namespace moe
