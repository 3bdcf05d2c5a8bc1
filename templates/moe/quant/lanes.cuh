//===- lanes.cuh - quantization by lanes of a warp --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Quantization of values in registers. Each thread has 8 contiguous values of a
// row. The threads whose values share a scale are adjacent lanes of one warp.
// The element-wise arithmetic is in moe/math.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/types.cuh"
#include "moe/math/emulated.cuh"

namespace moe::quant {

/// Returns the largest magnitude among the values of kLanes adjacent lanes, 8
/// per lane. Each of these lanes receives the result. `lanes`: mask of the
/// calling lanes. `Scaling`: determines if a NaN propagates.
template <int kLanes, class Scaling = void>
__device__ __forceinline__ float largestOfLanes(const float (&values)[8],
                                                unsigned lanes = 0xffffffffu) {
  float largest = 0.0f;
#pragma unroll
  for (int i = 0; i < 8; ++i)
    largest = largerOf<Scaling>(largest, fabsf(values[i]));
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2)
    largest =
        largerOf<Scaling>(largest, __shfl_xor_sync(lanes, largest, distance));
  return largest;
}

/// Number of lanes that share a scale, with 8 values each.
template <class Scaling>
inline constexpr int kLanesOfScale =
    Scaling::kColumns == 0 ? 1 : Scaling::kColumns / 8;

/// Quantizes 8 contiguous values of a row and replaces them with the
/// dequantized results. `outer`: the Scaling's outer scale. A whole warp calls
/// this function; the lanes that share a scale are adjacent. Values past the
/// end of a row must be 0.
template <class Scaling>
__device__ __forceinline__ void emulate(float (&values)[8], float outer) {
  static_assert(Scaling::kColumns % 8 == 0 && 32 % kLanesOfScale<Scaling> == 0,
                "values that share a scale must be lanes of one warp");
  float largest = 0.0f;
  if constexpr (Scaling::kColumns != 0)
    largest = largestOfLanes<kLanesOfScale<Scaling>>(values);
  float scale = Scaling::scale(largest, outer);
#pragma unroll
  for (int i = 0; i < 8; ++i)
    values[i] = Scaling::value(values[i], scale, outer);
}

namespace detail {
/// A placeholder Scaling that makes the largest magnitude NaN if any value is
/// NaN.
struct KeepsNan {
  static constexpr bool kPropagatesNan = true;
};
} // namespace detail

/// Quantizes 8 contiguous values of a row and replaces them with the values of
/// their codes, which are not multiplied by the scale. Returns the scale.
/// Called by whole warps, like emulate(). If the code type has no NaN, a NaN
/// among the values makes the scale NaN.
template <class Scaling>
__device__ __forceinline__ float encode(float (&values)[8], float outer) {
  static_assert(Scaling::kColumns % 8 == 0 && 32 % kLanesOfScale<Scaling> == 0,
                "values that share a scale must be lanes of one warp");
  constexpr int kLanes = kLanesOfScale<Scaling>;
  float scale;
  if constexpr (Format<typename Scaling::Element>::kHasNan) {
    scale = Scaling::scale(largestOfLanes<kLanes>(values), outer);
  } else {
    float largest = largestOfLanes<kLanes, detail::KeepsNan>(values);
    scale = largest != largest ? largest : Scaling::scale(largest, outer);
  }
#pragma unroll
  for (int i = 0; i < 8; ++i)
    values[i] = Scaling::code(values[i], scale, outer);
  return scale;
}

/// Stores 8 codes of a row. The first thread of a group also stores the group's
/// scale. `codes`: the codes as float values. `kColumns`: elements per row.
/// `kGroup`: elements that share a scale.
template <int kColumns, int kGroup, class Data, class Scale>
__device__ __forceinline__ void
storeCodes8(const float (&codes)[8], float scale, long long row, int column,
            Data *data, Scale *scales) {
  constexpr int kGroups = ceilDiv(kColumns, kGroup);
  static_assert(sizeof(Scale) == 1);
  if constexpr (kSame<Data, e2m1>) {
    unsigned word = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i)
      word |= codeOf<e2m1>(codes[i]) << 4 * i;
    *reinterpret_cast<unsigned *>(data + (row * kColumns + column) / 2) = word;
  } else if constexpr (kBits<Data> == 6) {
    unsigned long long word = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i)
      word |= (unsigned long long)codeOf<Data>(codes[i]) << 6 * i;
    // The address of these 6 bytes is a multiple of 2.
    auto *halves = reinterpret_cast<unsigned short *>(
        data + (row * kColumns + column) * 6 / 8);
#pragma unroll
    for (int i = 0; i < 3; ++i)
      halves[i] = (unsigned short)(word >> 16 * i);
  } else {
    static_assert(kBits<Data> == 8);
    Vector8 vector;
#pragma unroll
    for (int i = 0; i < 2; ++i)
      vector.words[i] = packBytes<Data>(codes + 4 * i);
    *reinterpret_cast<Vector8 *>(data + row * kColumns + column) = vector;
  }
  if (column % kGroup == 0)
    scales[row * kGroups + column / kGroup] = fromFloat<Scale>(scale);
}

} // namespace moe::quant
