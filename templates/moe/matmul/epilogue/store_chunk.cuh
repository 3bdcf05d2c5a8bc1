//===- store_chunk.cuh - chunk of a row, may be quantized -------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The last step of storeTile and storeSwapped, and the properties of quantized
// results. If a Config has the type Scaling, its result is quantized, and
// remains f32 until this step. There are three forms:
//
//   one static scale     the maximum of all experts' static scales, as in
//                        moe/kernel/quantize.cuh
//   one scale per token  moe/matmul/epilogue/quantize_groups.cuh and
//   and 128 columns      moe/matmul/epilogue/quantize_row_groups.cuh
//   emulated             moe/matmul/epilogue/store_emulated.cuh
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx.cuh"
#include "moe/core/types.cuh"
#include "moe/math/emulated.cuh"

namespace moe {

/// True if a matmul quantizes its result.
template <class Config>
inline constexpr bool quantizesResult = requires { typename Config::Scaling; };

/// True if every 128 columns of a result row share a scale, which is computed
/// from their values.
template <class Config> inline constexpr bool quantizesGroups = false;
template <class Config>
  requires quantizesResult<Config>
inline constexpr bool quantizesGroups<Config> =
    quant::ofGroup<typename Config::Scaling>;

/// True if the Scaling is emulated. The result is then codes, or the
/// dequantized values of codes.
template <class Config> inline constexpr bool emulatesResult = false;
template <class Config>
  requires quantizesResult<Config>
inline constexpr bool emulatesResult<Config> =
    quant::isEmulated<typename Config::Scaling>;

/// True if the result is stored as codes with one scale per group.
template <class Config> inline constexpr bool encodesResult = false;
template <class Config>
  requires quantizesResult<Config>
inline constexpr bool encodesResult<Config> =
    quant::isEncoded<typename Config::Scaling>;

/// Returns the factor with which the last step quantizes results: the
/// reciprocal of the static scale. If the result is emulated, the factor is
/// Scaling::outer of the static scale (moe/math/emulated.cuh). Without a static
/// scale it is 1. Called by a whole warp.
/// `writes`: this warp stores the static scale as the result's scale.
template <class Config>
__device__ __forceinline__ float
inverseOfScale(const typename Config::Args &args, bool writes) {
  if constexpr (emulatesResult<Config>) {
    using Scaling = typename Config::Scaling;
    static_assert(
        Scaling::kOuter != decltype(Scaling::kOuter)::Row &&
            !Scaling::kOfMaxima,
        "the outer scale of a row or of all values needs more than one tile");
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
    static_assert(
        kSame<typename Config::Scaling, quant::StaticTensor>,
        "a matmul's result needs Scaling StaticTensor, per group, or emulated");
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

/// Returns the address of row `row`'s scales if the result is codes with one
/// scale per group, else null. `kColumns`: columns of the result.
template <class Config, int kColumns>
__device__ __forceinline__ auto *storedScales(const typename Config::Args &args,
                                              [[maybe_unused]] int row) {
  if constexpr (encodesResult<Config>)
    return args.scale +
           (long long)row * ceilDiv(kColumns, Config::Scaling::kColumns);
  else
    return static_cast<float *>(nullptr);
}

/// Returns the offset of row `row` in the stored result. The unit is bytes for
/// codes, and elements otherwise.
template <class Config, int kColumns>
__device__ __forceinline__ long long storedBefore(int row) {
  long long numbers = (long long)row * kColumns;
  if constexpr (encodesResult<Config>)
    return numbers * kBits<RemoveReference<decltype(*Config::Args::data)>> / 8;
  else
    return numbers;
}

/// Returns the address of row 0 of the stored result.
template <class Config>
__device__ __forceinline__ auto *
storedResult(const typename Config::Args &args) {
  if constexpr (quantizesResult<Config>)
    return args.data;
  else
    return args.result;
}

/// Stores a 16-byte chunk of a row. If f32 results are stored in 8 bits, the
/// chunk is 4 values, which are multiplied by `inverse` and rounded. Otherwise
/// the 16 bytes are copied.
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
