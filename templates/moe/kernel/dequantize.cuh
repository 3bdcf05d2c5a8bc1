//===- dequantize.cuh - activations that arrive quantized -------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// data = code * scale (* second_scale), for callers that pass x as codes
// (quantized values) that no engine multiplies. Products are f32 and rounded
// once to the 16-bit type that the engine multiplies, as in
// moe/math/emulated.cuh. A thread converts 8 adjacent columns of a row, which
// share a scale. Codes of 4 and 6 bits are packed without gaps, so 8 codes
// occupy whole bytes.
//
// Args, in order. The condition for the presence of an argument is in brackets.
//   input: codes of a type of moe/math/codes.cuh, [rows, kColumns]
//   long long input_row_stride: in elements; a row starts at a multiple of 8
//     codes
//   scale: e4m3, ue8m0 or float, [rows, groups], [rows, 1] or [1]
//   second_scale: float [rows] if kSecondPerRow, else [1] [if x has one]
//   expert_num_tokens: int [kExperts] [if rows are batched, as in quantize.cuh]
//   tokens: int
//   data: the 16-bit result [rows, kColumns]
//
// Grid.x: ceildiv(capacity of rows * kColumns / 8, kThreads).
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/concepts.cuh"
#include "moe/core/pdl.cuh"
#include "moe/math/codes.cuh"
#include "moe/quant/quantize_rows.cuh"

namespace moe {

template <class Config> constexpr bool checkDequantizeConfig() {
  checkCommonConfig<Config>();
  MOE_REQUIRE_VALUE(Config, kColumns, "columns of the input");
  MOE_REQUIRE_VALUE(Config, kScaleRows,
                    "rows that share a scale, or kWholeExtent");
  MOE_REQUIRE_VALUE(Config, kScaleColumns,
                    "columns that share a scale, or kWholeExtent");
  MOE_REQUIRE_VALUE(Config, kSecondPerRow,
                    "true if each row has a second scale");
  MOE_REQUIRE_VALUE(Config, kExperts, "experts of this rank");
  static_assert(Config::kColumns % 8 == 0 &&
                    (Config::kScaleColumns == kWholeExtent ||
                     Config::kScaleColumns % 8 == 0),
                "the columns of a thread must share a scale");
  return true;
}

/// Returns the dynamic shared memory of the kernel in bytes, 0.
template <class Config> constexpr int sharedBytes() {
  static_assert(checkDequantizeConfig<Config>());
  return 0;
}

namespace detail {

/// Loads 8 codes as f32, starting at code `at`, a multiple of 8.
template <class T>
__device__ __forceinline__ void loadCodes8(const T *codes, long long at,
                                           float (&values)[8]) {
  unsigned words[2];
  const unsigned char *bytes =
      reinterpret_cast<const unsigned char *>(codes) + at / 8 * kBits<T>;
  if constexpr (kBits<T> == 8) {
    Vector8 vector = *reinterpret_cast<const Vector8 *>(bytes);
    words[0] = vector.words[0];
    words[1] = vector.words[1];
  } else if constexpr (kBits<T> == 4) {
    words[0] = *reinterpret_cast<const unsigned *>(bytes);
    words[1] = 0;
  } else {
    static_assert(kBits<T> == 6, "codes have 4, 6 or 8 bits");
    const unsigned short *halves =
        reinterpret_cast<const unsigned short *>(bytes);
    words[0] = unsigned(halves[0]) | unsigned(halves[1]) << 16;
    words[1] = halves[2];
  }
#pragma unroll
  for (int i = 0; i < 8; ++i)
    values[i] = decode8th<T>(words, i);
}

/// Returns the index of the scale of the element at (row, column).
template <class Config>
__device__ __forceinline__ long long scaleAt(long long row, int column) {
  if constexpr (Config::kScaleRows == kWholeExtent)
    return 0;
  else if constexpr (Config::kScaleColumns == kWholeExtent)
    return row;
  else
    return row * ceilDiv(Config::kColumns, Config::kScaleColumns) +
           column / Config::kScaleColumns;
}

} // namespace detail

template <class Config>
__device__ __forceinline__ void dequantize(const typename Config::Args &args) {
  static_assert(checkDequantizeConfig<Config>());
  using Args = typename Config::Args;
  using Data = RemoveReference<decltype(*Args::data)>;
  static_assert(sizeof(Data) == 2, "codes are converted to 16-bit values");
  constexpr int kWide = 8;
  constexpr int kPerRow = Config::kColumns / kWide;
  awaitPredecessor<Config>();
  int rows = args.tokens;
  if constexpr (requires { args.expert_num_tokens; })
    rows *= Config::kExperts;
  long long item = (long long)blockIdx.x * Config::kThreads + int(threadIdx.x);
  long long row = item / kPerRow;
  int column = int(item % kPerRow) * kWide;
  if (row >= rows || !detail::isRow(args, int(row)))
    return;
  float values[kWide];
  detail::loadCodes8(args.input, row * args.input_row_stride + column, values);
  float scale = toFloat(args.scale[detail::scaleAt<Config>(row, column)]);
#pragma unroll
  for (int i = 0; i < kWide; ++i)
    values[i] = __fmul_rn(values[i], scale);
  if constexpr (requires { args.second_scale; }) {
    float second = args.second_scale[Config::kSecondPerRow ? row : 0];
#pragma unroll
    for (int i = 0; i < kWide; ++i)
      values[i] = __fmul_rn(values[i], second);
  }
  *reinterpret_cast<Vector16 *>(args.data + row * Config::kColumns + column) =
      pack<Data>(values);
}

} // namespace moe
