//===- quantize.cuh - activations to 8 bits with their scales ---*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// data = input / scale, rounded to nearest even and saturated. `Scaling` says
// which values share a scale:
//   Group128      128 of a row; 16 lanes a group (PowerGroup128: powers of two)
//   Token         a row; one CTA a row (TokenOfBytes: of integers)
//   StaticTensor  all; the largest of the static scales of all experts
//   DynamicTensor all; from the block maxima that kernel amax left
//                 (DynamicTensorOfBytes: of integers)
//   Rounded       none: values or products are rounded to the type of data
//   those of emulated.cuh: data are the numbers that codes stand for, of the
//                 type that the engine multiplies, and there is no scale
// Rows: offsets[kExperts] of them with kByOffsets (sorted rows), else tokens,
// or with row_weights pairs, kPairs of each token, whose row is multiplied by
// them first, or with expert_num_tokens tokens of each expert (batched rows),
// of which those at and behind the expert's count are none. Others are not
// touched.
//
// quantize, Args in order (absent where marked): input, long long
//   input_row_stride (elements), row_weights float (of a layer whose weights
//   multiply x), static_scale float [kScales] (StaticTensor; FloatTensor), or
//   static_second_scale (TwoLevels), block_amax float (DynamicTensor), offsets
//   int (kByOffsets), expert_num_tokens int [kExperts] (batched rows), tokens
//   int, valid_tokens int [1] or null (DynamicTensor of tokens), data, scale
//   float (absent with Rounded and emulated): [rows, groups], [rows, 1] or [1].
//   Grid.x: emulated: by row as Token, others one thread for 8 columns, ends of
//   groups that are no columns counted; Group128: ceildiv(capacity * groups,
//   kThreads / 16); Token: capacity; else ceildiv(capacity, kBlockRows).
// amax, Args in order: input, long long input_row_stride, row_weights float (as
//   above), offsets int (kByOffsets), expert_num_tokens int [kExperts] (batched
//   rows), tokens int, valid_tokens int [1] or null (of tokens), block_amax
//   float, one for each kBlockRows rows. Grid.x: ceildiv(capacity, kBlockRows).
//   Maxima of rows alone, so no order matters. Scaling: DynamicTensor, or
//   DynamicTensorOfBytes, with which a NaN is the maximum.
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
  MOE_REQUIRE_TYPE(Config, Scaling, "which values share a scale");
  MOE_REQUIRE_VALUE(Config, kColumns, "columns of the input");
  MOE_REQUIRE_VALUE(Config, kByOffsets, "whether offsets say how many rows");
  MOE_REQUIRE_VALUE(Config, kExperts, "experts of this rank");
  MOE_REQUIRE_VALUE(Config, kScales, "static scales");
  MOE_REQUIRE_VALUE(Config, kBlockRows, "rows of a block of maxima");
  return detail::checkQuantizedColumns<Config>();
}

/// Dynamic shared memory of both kernels: none.
template <class Config> constexpr int sharedBytes() {
  static_assert(checkQuantizeConfig<Config>());
  return 0;
}

namespace detail {

template <class Config>
__device__ __forceinline__ int rowsOf(const typename Config::Args &args) {
  if constexpr (Config::kByOffsets)
    return args.offsets[Config::kExperts];
  else if constexpr (requires { args.expert_num_tokens; })
    return args.tokens * Config::kExperts;
  else
    return args.tokens * weighedPairs<Config>();
}

/// Rows whose values count for a scale of all.
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
