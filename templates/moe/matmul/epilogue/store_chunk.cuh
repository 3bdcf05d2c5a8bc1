//===- store_chunk.cuh - a chunk of a row, quantized or not -----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The last step of both epilogues. A Config with the type Scaling leaves its
// result quantized: with one given scale, the largest of the static scales of
// all experts, as kernel quantize takes it; with one for each 128 columns, or
// emulated (quantize_groups.cuh, quantize_row_groups.cuh, store_emulated.cuh).
// Such a result is f32 until then.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx.cuh"
#include "moe/core/types.cuh"
#include "moe/math/emulated.cuh"

namespace moe {

/// Whether a matmul quantizes its result.
template <class Config>
inline constexpr bool quantizesResult = requires { typename Config::Scaling; };

/// Whether 128 columns of it share a scale that follows from them.
template <class Config> inline constexpr bool quantizesGroups = false;
template <class Config>
  requires quantizesResult<Config>
inline constexpr bool quantizesGroups<Config> =
    quant::ofGroup<typename Config::Scaling>;

/// Whether it becomes what codes stand for.
template <class Config> inline constexpr bool emulatesResult = false;
template <class Config>
  requires quantizesResult<Config>
inline constexpr bool emulatesResult<Config> =
    quant::isEmulated<typename Config::Scaling>;

/// Whether it becomes codes with a scale for each group.
template <class Config> inline constexpr bool encodesResult = false;
template <class Config>
  requires quantizesResult<Config>
inline constexpr bool encodesResult<Config> =
    quant::isEncoded<typename Config::Scaling>;

/// One over the given scale of all values, by a whole warp; 1 where there is
/// none; `outer` of emulated values. `writes`: this warp stores the scale.
template <class Config>
__device__ __forceinline__ float
inverseOfScale(const typename Config::Args &args, bool writes) {
  if constexpr (emulatesResult<Config>) {
    using Scaling = typename Config::Scaling;
    static_assert(Scaling::kOuter != decltype(Scaling::kOuter)::Row &&
                      !Scaling::kOfMaxima,
                  "a number of a row, or of all values, follows from more than "
                  "a tile");
    if constexpr (Scaling::kStored) {
      float largest = 0.0f;
#pragma unroll 1
      for (int i = int(threadIdx.x) % 32; i < Config::kScales; i += 32)
        largest = fmaxf(largest, args.static_scale[i]);
      return Scaling::outer(ptx::warpMaximum(largest));
    } else {
      return 1.0f;
    }
  } else if constexpr (quantizesResult<Config> && !quantizesGroups<Config>) {
    static_assert(kSame<typename Config::Scaling, quant::StaticTensor>,
                  "a matmul quantizes its result with StaticTensor, with one "
                  "of groups, or emulated");
    float largest = 0.0f;
#pragma unroll 1
    for (int i = int(threadIdx.x) % 32; i < Config::kScales; i += 32)
      largest = fmaxf(largest, args.static_scale[i]);
    largest = ptx::warpMaximum(largest);
    if (writes && threadIdx.x % 32 == 0)
      args.scale[0] = largest;
    return __fdiv_rn(1.0f, largest);
  } else {
    return 1.0f;
  }
}

/// The scales of row `row`, of codes with one for each group; null
/// of other results. kColumns: of the result.
template <class Config, int kColumns>
__device__ __forceinline__ auto *storedScales(const typename Config::Args &args,
                                              [[maybe_unused]] int row) {
  if constexpr (encodesResult<Config>)
    return args.scale +
           (long long)row * ceilDiv(kColumns, Config::Scaling::kColumns);
  else
    return static_cast<float *>(nullptr);
}

/// Returns the offset of a row in what is stored: in bytes of codes, otherwise
/// in elements.
template <class Config, int kColumns>
__device__ __forceinline__ long long storedBefore(int row) {
  long long numbers = (long long)row * kColumns;
  if constexpr (encodesResult<Config>)
    return numbers * kBits<RemoveReference<decltype(*Config::Args::data)>> / 8;
  else
    return numbers;
}

/// Row 0 of what is stored.
template <class Config>
__device__ __forceinline__ auto *
storedResult(const typename Config::Args &args) {
  if constexpr (quantizesResult<Config>)
    return args.data;
  else
    return args.result;
}

/// Stores a chunk of a row: as it is, or 4 f32 times `inverse` in 8 bits.
template <class Result, class Stored>
__device__ __forceinline__ void storeChunk(const Vector16 &chunk, Stored *to,
                                           float inverse) {
  if constexpr (kSame<Result, Stored>) {
    *reinterpret_cast<Vector16 *>(to) = chunk;
  } else {
    static_assert(kSame<Result, float> && sizeof(Stored) == 1);
    float values[4];
    unpack<float>(chunk, values);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      values[i] = __fmul_rn(values[i], inverse);
    *reinterpret_cast<unsigned *>(to) = packBytes<Stored>(values);
  }
}

} // namespace moe
