//===- quantize.cuh - activations to 8 bits with their scales ---*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// data = input / scale, rounded to nearest even and saturated. `Scaling`
// specifies which values share a scale:
//   Group128      128 adjacent values of a row; 16 lanes per group
//                 (PowerGroup128: the scale is a power of two)
//   Token         a row; one or more warps per row (TokenOfBytes: quantizes to
//                 integers)
//   StaticTensor  all values; the scale is the largest of the experts' static
//                 scales
//   DynamicTensor all values; the scale is computed from the block maxima that
//                 kernel amax wrote (DynamicTensorOfBytes: quantizes to
//                 integers)
//   Rounded       no scale; values or products are rounded to the type of data
//   Scalings of moe/math/emulated.cuh: data holds the values that the codes
//     represent, in the type that the engine multiplies; no scale is stored
// The number of rows is:
//   offsets[kExperts] with kByOffsets (sorted rows)
//   tokens * kPairs with row_weights: each pair has a row, which is the token's
//     row times the pair's weight
//   tokens * kExperts with expert_num_tokens (batched rows); slots at or past
//     the expert's count are skipped
//   tokens otherwise
// Other rows are not written.
//
// Args of quantize, in order. The condition for the presence of an argument is
// in brackets.
//   input: Input [rows, kColumns]
//   long long input_row_stride: in elements
//   row_weights: float [if weights multiply x]
//   static_scale: float [kScales] [if StaticTensor or FloatTensor], or
//     static_second_scale [if TwoLevels]
//   block_amax: float, as written by amax [if DynamicTensor]
//   offsets: int [if kByOffsets]
//   expert_num_tokens: int [kExperts] [if rows are batched]
//   tokens: int [absent if kByOffsets]
//   valid_tokens: int [1] or null [if DynamicTensor over tokens]
//   data: the result
//   scale: float [rows, groups], [rows, 1] or [1] [absent if Rounded or
//     emulated]
// Grid.x:
//   Group128: ceildiv(capacity * groups, kThreads / 16)
//   Token, and emulated scalings by row: ceildiv(capacity, rows of a CTA); see
//     kRowThreads in moe/quant/quantize_rows.cuh
//   other emulated scalings: one thread per 8 columns, including padding
//     columns at the ends of groups
//   otherwise: ceildiv(capacity, kBlockRows)
//
// Args of amax, in order:
//   input: as above
//   long long input_row_stride: in elements
//   row_weights: float, as above
//   offsets: int [if kByOffsets]
//   expert_num_tokens: int [kExperts] [if rows are batched]
//   tokens: int [absent if kByOffsets]
//   valid_tokens: int [1] or null [if the rows are tokens]
//   block_amax: float, written: the maximum of each kBlockRows rows
// Grid.x: ceildiv(capacity, kBlockRows). Maxima do not depend on the order of
// their computation, so neither does the result. Scaling is DynamicTensor,
// which ignores NaN, or DynamicTensorOfBytes, for which NaN is the largest
// value.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/concepts.cuh"
#include "moe/core/pdl.cuh"
#include "moe/core/types.cuh"
#include "moe/quant/emulate_rows.cuh"

namespace moe {

template <class Config> constexpr bool checkQuantizeConfig() {
  checkCommonConfig<Config>();
  MOE_REQUIRE_TYPE(Config, Input, "element type of the input");
  MOE_REQUIRE_TYPE(Config, Scaling, "the granularity of scales");
  MOE_REQUIRE_VALUE(Config, kColumns, "columns of the input");
  MOE_REQUIRE_VALUE(Config, kByOffsets,
                    "true if offsets define the number of rows");
  MOE_REQUIRE_VALUE(Config, kExperts, "experts of this rank");
  MOE_REQUIRE_VALUE(Config, kScales, "static scales");
  MOE_REQUIRE_VALUE(Config, kBlockRows, "rows per block of maxima");
  return detail::checkQuantizedColumns<Config>();
}

/// Returns the dynamic shared memory of both kernels in bytes, 0.
template <class Config> constexpr int sharedBytes() {
  static_assert(checkQuantizeConfig<Config>());
  return 0;
}

namespace detail {

/// Returns the number of rows, as listed at the top of this file.
template <class Config>
__device__ __forceinline__ int rowsOf(const typename Config::Args &args) {
  if constexpr (Config::kByOffsets)
    return args.offsets[Config::kExperts];
  else if constexpr (requires { args.expert_num_tokens; })
    return args.tokens * Config::kExperts;
  else
    return args.tokens * weighedPairs<Config>();
}

/// Returns the number of rows that contribute to a per-tensor scale.
template <class Config>
__device__ __forceinline__ int countedRows(const typename Config::Args &args) {
  int rows = rowsOf<Config>(args);
  if constexpr (requires { args.valid_tokens; })
    if (args.valid_tokens)
      rows =
          max(0, min(args.tokens, *args.valid_tokens)) * weighedPairs<Config>();
  return rows;
}

} // namespace detail

template <class Config>
__device__ __forceinline__ void quantize(const typename Config::Args &args) {
  static_assert(checkQuantizeConfig<Config>());
  using Scaling = typename Config::Scaling;
  awaitPredecessor<Config>();
  int rows = detail::rowsOf<Config>(args);
  constexpr bool kIsEmulated = quant::isEmulated<Scaling>;
  constexpr bool kOfMaxima = [] {
    if constexpr (kIsEmulated)
      return Scaling::kOfMaxima;
    else
      return quant::ofValues<Scaling>;
  }();
  if constexpr (kOfMaxima) {
    int blocks = ceilDiv(detail::countedRows<Config>(args), Config::kBlockRows);
    float largest = 0.0f;
    for (int i = int(threadIdx.x); i < blocks; i += Config::kThreads)
      largest = quant::largerOf<Scaling>(largest, args.block_amax[i]);
    largest = detail::groupMaximum<Config::kThreads, Config::kThreads, Scaling>(
        largest);
    if constexpr (kIsEmulated)
      detail::emulateRows<Config>(args, rows, int(blockIdx.x),
                                  Scaling::outer(largest));
    else
      detail::Quantize<Config>::tensor(args, rows, int(blockIdx.x),
                                       Scaling::scale(largest));
  } else {
    detail::quantizeOrEmulateRows<Config>(args, rows, int(blockIdx.x));
  }
}

template <class Config>
__device__ __forceinline__ void amax(const typename Config::Args &args) {
  static_assert(checkQuantizeConfig<Config>());
  using Scaling = typename Config::Scaling;
  constexpr int kWide = detail::kQuantizeWidth;
  constexpr int kPerRow = Config::kColumns / kWide;
  awaitPredecessor<Config>();
  int first = int(blockIdx.x) * Config::kBlockRows;
  int rows = min(Config::kBlockRows, detail::countedRows<Config>(args) - first);
  if (rows <= 0)
    return;
  float largest = 0.0f;
  for (int i = int(threadIdx.x); i < rows * kPerRow; i += Config::kThreads) {
    int row = first + i / kPerRow;
    if (!detail::isRow(args, row))
      continue;
    float values[kWide];
    detail::loadRow8<Config>(args, row, i % kPerRow * kWide, values);
    largest = quant::largerOf<Scaling>(
        largest, quant::largestOfLanes<1, Scaling>(values));
  }
  largest = detail::groupMaximum<Config::kThreads, Config::kThreads, Scaling>(
      largest);
  if (threadIdx.x == 0)
    args.block_amax[blockIdx.x] = largest;
}

} // namespace moe
