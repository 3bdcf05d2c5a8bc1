//===- quantize.cuh - activations to e4m3 with their scales -----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// data = input / scale, rounded to nearest even and saturated. `Scaling` says
// which values share a scale:
//   Group128      128 of a row; 16 lanes a group
//   Token         a row; one CTA a row
//   StaticTensor  all; the largest of the static scales of all experts
//   DynamicTensor all; from the block maxima that kernel amax left
// Rows: offsets[kExperts] of them with kByOffsets (sorted rows), else tokens.
// Rows at and behind that are not touched.
//
// quantize, Args in order (absent where marked): input, long long
//   input_row_stride (elements), static_scale float [kScales] (StaticTensor),
//   block_amax float (DynamicTensor), offsets int (kByOffsets), tokens int,
//   valid_tokens int [1] or null (DynamicTensor of tokens), data, scale float:
//   [rows, groups], [rows, 1] or [1].
//   Grid.x: Group128: ceildiv(capacity * groups, kThreads / 16); Token:
//   capacity; else ceildiv(capacity, kBlockRows).
// amax, Args in order: input, long long input_row_stride, offsets int
//   (kByOffsets), tokens int, valid_tokens int [1] or null (not kByOffsets),
//   block_amax float, one for each kBlockRows rows. Grid.x: ceildiv(capacity,
//   kBlockRows). Maxima of rows alone, so no order matters.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/concepts.cuh"
#include "moe/core/pdl.cuh"
#include "moe/core/types.cuh"
#include "moe/quant/scaling.cuh"

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
  static_assert(Config::kColumns % 16 == 0,
                "rows must be whole 16-byte chunks of the result");
  return true;
}

/// Dynamic shared memory of both kernels: none.
template <class Config> constexpr int sharedBytes() {
  static_assert(checkQuantizeConfig<Config>());
  return 0;
}

namespace detail {

/// Elements that a thread moves at a time.
inline constexpr int kQuantizeWidth = 8;

/// 8 elements as f32.
template <class T>
__device__ __forceinline__ void load8(const T *source, float (&values)[8]) {
  constexpr int kVectors = 8 / kPerVector<T>;
#pragma unroll
  for (int i = 0; i < kVectors; ++i)
    unpack<T>(reinterpret_cast<const Vector16 *>(source)[i],
              values + i * kPerVector<T>);
}

__device__ __forceinline__ void store8(const float (&values)[8], e4m3 *to) {
  Vector8 vector;
#pragma unroll
  for (int i = 0; i < 2; ++i)
    vector.words[i] = ptx::e4m3Pair(values[4 * i], values[4 * i + 1]) |
                      ptx::e4m3Pair(values[4 * i + 2], values[4 * i + 3]) << 16;
  *reinterpret_cast<Vector8 *>(to) = vector;
}

__device__ __forceinline__ float largest8(const float (&values)[8]) {
  float largest = 0.0f;
#pragma unroll
  for (int i = 0; i < 8; ++i)
    largest = fmaxf(largest, fabsf(values[i]));
  return largest;
}

/// The maximum over the CTA, in every thread.
template <int kThreads>
__device__ __forceinline__ float ctaMaximum(float value) {
  __shared__ float warps[kThreads / 32];
  value = ptx::warpMaximum(value);
  if (threadIdx.x % 32 == 0)
    warps[threadIdx.x / 32] = value;
  __syncthreads();
  value = warps[0];
#pragma unroll
  for (int i = 1; i < kThreads / 32; ++i)
    value = fmaxf(value, warps[i]);
  return value;
}

template <class Config>
__device__ __forceinline__ int rowsOf(const typename Config::Args &args) {
  if constexpr (Config::kByOffsets)
    return args.offsets[Config::kExperts];
  else
    return args.tokens;
}

/// Rows whose values count for a scale of all.
template <class Config>
__device__ __forceinline__ int countedRows(const typename Config::Args &args) {
  int rows = rowsOf<Config>(args);
  if constexpr (!Config::kByOffsets)
    if (args.valid_tokens)
      rows = max(0, min(rows, *args.valid_tokens));
  return rows;
}

template <class Config> struct Quantize {
  using Args = typename Config::Args;
  static constexpr int kWide = kQuantizeWidth;
  static constexpr int kColumns = Config::kColumns;
  static constexpr int kGroups = ceilDiv(kColumns, 128);

  static __device__ __forceinline__ void groups(const Args &args, int rows) {
    constexpr int kLanes = 128 / kWide;
    constexpr int kPerCta = Config::kThreads / kLanes;
    long long item =
        (long long)blockIdx.x * kPerCta + int(threadIdx.x) / kLanes;
    if (item >= (long long)rows * kGroups)
      return;
    long long row = item / kGroups;
    int group = int(item % kGroups);
    int column = group * 128 + int(threadIdx.x) % kLanes * kWide;
    float values[kWide] = {};
    bool exists = kColumns % 128 == 0 || column < kColumns;
    if (exists)
      load8(args.input + row * args.input_row_stride + column, values);
    float largest = largest8(values);
    // The lanes of a group are there or not together.
    unsigned lanes = 0xffffu << (threadIdx.x & 16u);
#pragma unroll
    for (int distance = kLanes / 2; distance > 0; distance /= 2)
      largest = fmaxf(largest, __shfl_xor_sync(lanes, largest, distance));
    float scale = quant::Group128::scale(largest);
#pragma unroll
    for (int i = 0; i < kWide; ++i)
      values[i] = __fdiv_rn(values[i], scale);
    if (exists)
      store8(values, args.data + row * kColumns + column);
    if (threadIdx.x % kLanes == 0)
      args.scale[item] = scale;
  }

  static __device__ __forceinline__ void token(const Args &args, int rows) {
    int row = int(blockIdx.x);
    if (row >= rows)
      return;
    const auto *input = args.input + (long long)row * args.input_row_stride;
    float largest = 0.0f;
    for (int c = int(threadIdx.x) * kWide; c < kColumns;
         c += Config::kThreads * kWide) {
      float values[kWide];
      load8(input + c, values);
      largest = fmaxf(largest, largest8(values));
    }
    float scale = quant::Token::scale(ctaMaximum<Config::kThreads>(largest));
    for (int c = int(threadIdx.x) * kWide; c < kColumns;
         c += Config::kThreads * kWide) {
      float values[kWide];
      load8(input + c, values);
#pragma unroll
      for (int i = 0; i < kWide; ++i)
        values[i] = __fdiv_rn(values[i], scale);
      store8(values, args.data + (long long)row * kColumns + c);
    }
    if (threadIdx.x == 0)
      args.scale[row] = scale;
  }

  static __device__ __forceinline__ void tensor(const Args &args, int rows,
                                                float scale) {
    float inverse = __fdiv_rn(1.0f, scale);
    constexpr int kPerRow = kColumns / kWide;
    int first = int(blockIdx.x) * Config::kBlockRows;
    int count = min(Config::kBlockRows, rows - first) * kPerRow;
    for (int i = int(threadIdx.x); i < count; i += Config::kThreads) {
      long long row = first + i / kPerRow;
      int column = i % kPerRow * kWide;
      float values[kWide];
      load8(args.input + row * args.input_row_stride + column, values);
#pragma unroll
      for (int j = 0; j < kWide; ++j)
        values[j] = __fmul_rn(values[j], inverse);
      store8(values, args.data + row * kColumns + column);
    }
    if (blockIdx.x == 0 && threadIdx.x == 0)
      args.scale[0] = scale;
  }
};

} // namespace detail

template <class Config>
__device__ __forceinline__ void quantize(const typename Config::Args &args) {
  static_assert(checkQuantizeConfig<Config>());
  using Q = detail::Quantize<Config>;
  using Scaling = typename Config::Scaling;
  awaitPredecessor<Config>();
  int rows = detail::rowsOf<Config>(args);
  if constexpr (kSame<Scaling, quant::Group128>) {
    Q::groups(args, rows);
  } else if constexpr (kSame<Scaling, quant::Token>) {
    Q::token(args, rows);
  } else if constexpr (kSame<Scaling, quant::StaticTensor>) {
    float largest = 0.0f;
    for (int i = int(threadIdx.x); i < Config::kScales; i += Config::kThreads)
      largest = fmaxf(largest, args.static_scale[i]);
    Q::tensor(args, rows, detail::ctaMaximum<Config::kThreads>(largest));
  } else {
    static_assert(kSame<Scaling, quant::DynamicTensor>);
    int blocks = ceilDiv(detail::countedRows<Config>(args), Config::kBlockRows);
    float largest = 0.0f;
    for (int i = int(threadIdx.x); i < blocks; i += Config::kThreads)
      largest = fmaxf(largest, args.block_amax[i]);
    Q::tensor(args, rows,
              Scaling::scale(detail::ctaMaximum<Config::kThreads>(largest)));
  }
}

template <class Config>
__device__ __forceinline__ void amax(const typename Config::Args &args) {
  static_assert(checkQuantizeConfig<Config>());
  constexpr int kWide = detail::kQuantizeWidth;
  constexpr int kPerRow = Config::kColumns / kWide;
  awaitPredecessor<Config>();
  int first = int(blockIdx.x) * Config::kBlockRows;
  int rows = min(Config::kBlockRows, detail::countedRows<Config>(args) - first);
  if (rows <= 0)
    return;
  float largest = 0.0f;
  for (int i = int(threadIdx.x); i < rows * kPerRow; i += Config::kThreads) {
    float values[kWide];
    detail::load8(args.input +
                      (long long)(first + i / kPerRow) * args.input_row_stride +
                      i % kPerRow * kWide,
                  values);
    largest = fmaxf(largest, detail::largest8(values));
  }
  largest = detail::ctaMaximum<Config::kThreads>(largest);
  if (threadIdx.x == 0)
    args.block_amax[blockIdx.x] = largest;
}

} // namespace moe
