//===- quantize_last.cuh - results to e4m3 by who comes last ----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The result of a matmul whose Config has a Scaling leaves it quantized. Where
// values of several column tiles share a scale, each CTA stores its tile as f32
// and counts it; the last one of a span (the column tiles that share scales, at
// least) reads the span's rows back, out of L2, and quantizes them. The values
// are the same whoever that is.
//
// The count is word 3 of the tile's entry in the tile list, zero when the list
// is written: some bits for each span.
//
// A scale of all values is given: they are quantized on their way to memory.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx.cuh"
#include "moe/core/types.cuh"
#include "moe/quant/scaling.cuh"

namespace moe {

/// Whether a matmul quantizes its result.
template <class Config>
inline constexpr bool quantizesResult = requires { typename Config::Scaling; };

/// How tiles and scales of a quantized result lie.
template <class Config> struct Spans {
  using Scaling = typename Config::Scaling;
  using Schedule = typename Config::Schedule;
  static constexpr bool kStatic = kSame<Scaling, quant::StaticTensor>;
  static constexpr int kParts = Config::Activation::kGated ? 2 : 1;
  static constexpr int kColumns = Config::kN / kParts;
  static constexpr int kTileColumns = Schedule::kTileN / kParts;
  static constexpr int kTiles = ceilDiv(Config::kN, Schedule::kTileN);
  static constexpr bool kByGroup = kSame<Scaling, quant::Group128>;
  /// Columns that share a scale.
  static constexpr int kGroup = kByGroup ? 128 : kColumns;
  static constexpr int kGroups = ceilDiv(kColumns, kGroup);
  static constexpr int kSpan = maximum(kGroup, kTileColumns);
  static constexpr int kSpans = ceilDiv(kColumns, kSpan);
  static constexpr int kTilesOfSpan = ceilDiv(kSpan, kTileColumns);
  static constexpr int bitsFor(int count) {
    return count == 0 ? 0 : 1 + bitsFor(count / 2);
  }
  static constexpr int kBits = bitsFor(kTilesOfSpan);
  static_assert(kByGroup || kStatic || kSame<Scaling, quant::Token>,
                "a result is quantized with Group128, Token or StaticTensor");
  static_assert(kSame<typename Config::Result, float>,
                "a result that is quantized is f32 until then");
  static_assert(!kByGroup || 128 % kTileColumns == 0 || kTileColumns % 128 == 0,
                "tiles must divide, or be divided by, groups of 128 columns");
  static_assert(kStatic || kTilesOfSpan == 1 || kSpans * kBits <= 32,
                "the counts of all spans of a row tile must fit 32 bits");
  static_assert(kColumns % 16 == 0, "rows must be whole 16-byte chunks");
};

namespace detail {

/// Four f32 to e4m3, each divided by the scale.
__device__ __forceinline__ unsigned divided(const int4 &chunk, float scale) {
  return ptx::e4m3Pair(__fdiv_rn(__int_as_float(chunk.x), scale),
                       __fdiv_rn(__int_as_float(chunk.y), scale)) |
         ptx::e4m3Pair(__fdiv_rn(__int_as_float(chunk.z), scale),
                       __fdiv_rn(__int_as_float(chunk.w), scale))
             << 16;
}

__device__ __forceinline__ float largestOf(const int4 &chunk) {
  return fmaxf(
      fmaxf(fabsf(__int_as_float(chunk.x)), fabsf(__int_as_float(chunk.y))),
      fmaxf(fabsf(__int_as_float(chunk.z)), fabsf(__int_as_float(chunk.w))));
}

/// What kThreads threads of a CTA do who came last.
template <class Config, int kThreads> struct SpanQuantizer {
  using Args = typename Config::Args;
  using S = Spans<Config>;
  /// Loads of 16 bytes that a thread has in flight.
  static constexpr int kLoads = [] {
    if constexpr (requires { Config::Schedule::kConsumerRegisters; })
      return Config::Schedule::kConsumerRegisters >= 128 ? 16 : 8;
    else
      return 16;
  }();

  static __device__ __forceinline__ int4 load(const float *source,
                                              bool exists) {
    return exists ? ptx::loadFresh(reinterpret_cast<const int4 *>(source))
                  : make_int4(0, 0, 0, 0);
  }

  /// Half a warp takes a row's group, each lane 4 columns and those 64 behind.
  static __device__ __forceinline__ void
  group(const Args &args, int thread, long long firstRow, int rows, int group) {
    constexpr int kAtOnce = kThreads / 16;
    constexpr int kBatch =
        minimum(kLoads / 2, ceilDiv(Config::Schedule::kTileM, kAtOnce));
    int lane = thread % 16;
    int column = group * 128 + lane * 4;
    bool first = S::kColumns % 128 == 0 || column < S::kColumns;
    bool second = S::kColumns % 128 == 0 || column + 64 < S::kColumns;
    const float *from = args.result + firstRow * S::kColumns + column;
    e4m3 *to = args.data + firstRow * S::kColumns + column;
    float *scales = args.scale + firstRow * S::kGroups + group;
#pragma unroll 1
    for (int base = 0; base < rows; base += kBatch * kAtOnce) {
      int4 chunks[kBatch][2];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        int row = base + i * kAtOnce + thread / 16;
        const float *source = from + (long long)row * S::kColumns;
        chunks[i][0] = load(source, first && row < rows);
        chunks[i][1] = load(source + 64, second && row < rows);
      }
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        int row = base + i * kAtOnce + thread / 16;
        float largest = fmaxf(largestOf(chunks[i][0]), largestOf(chunks[i][1]));
#pragma unroll
        for (int distance = 8; distance > 0; distance /= 2)
          largest =
              fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, distance));
        float scale = quant::Group128::scale(largest);
        e4m3 *place = to + (long long)row * S::kColumns;
        if (first && row < rows)
          *reinterpret_cast<unsigned *>(place) = divided(chunks[i][0], scale);
        if (second && row < rows)
          *reinterpret_cast<unsigned *>(place + 64) =
              divided(chunks[i][1], scale);
        if (lane == 0 && row < rows)
          scales[(long long)row * S::kGroups] = scale;
      }
    }
  }

  /// A warp takes a row, each lane 4 columns of every 128.
  static __device__ __forceinline__ void token(const Args &args, int thread,
                                               long long firstRow, int rows) {
    constexpr int kAtOnce = kThreads / 32;
    constexpr int kChunks = ceilDiv(S::kColumns, 128);
    constexpr bool kTail = S::kColumns % 128 != 0;
    constexpr int kHeld = minimum(kChunks, kLoads);
    constexpr int kBatch =
        kChunks <= kLoads / 2
            ? minimum(kLoads / kChunks,
                      ceilDiv(Config::Schedule::kTileM, kAtOnce))
            : 1;
    int lane = thread % 32;
    const float *from = args.result + firstRow * S::kColumns + lane * 4;
    e4m3 *to = args.data + firstRow * S::kColumns + lane * 4;
    auto inRow = [&](int chunk) {
      return chunk < kChunks - 1 ||
             (chunk == kChunks - 1 &&
              (!kTail || chunk * 128 + lane * 4 < S::kColumns));
    };
#pragma unroll 1
    for (int base = 0; base < rows; base += kBatch * kAtOnce) {
      int4 chunks[kBatch][kHeld];
      float largest[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        int row = base + i * kAtOnce + thread / 32;
        const float *source = from + (long long)row * S::kColumns;
#pragma unroll
        for (int c = 0; c < kHeld; ++c)
          chunks[i][c] = load(source + c * 128, inRow(c) && row < rows);
      }
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        int row = base + i * kAtOnce + thread / 32;
        largest[i] = 0.0f;
#pragma unroll
        for (int c = 0; c < kHeld; ++c)
          largest[i] = fmaxf(largest[i], largestOf(chunks[i][c]));
        if constexpr (kHeld < kChunks) {
          const float *source = from + (long long)row * S::kColumns;
#pragma unroll 8
          for (int c = kHeld; c < kChunks; ++c)
            largest[i] = fmaxf(
                largest[i],
                largestOf(load(source + c * 128, inRow(c) && row < rows)));
        }
        float scale = quant::Token::scale(ptx::warpMaximum(largest[i]));
        e4m3 *place = to + (long long)row * S::kColumns;
#pragma unroll
        for (int c = 0; c < kHeld; ++c)
          if (inRow(c) && row < rows)
            *reinterpret_cast<unsigned *>(place + c * 128) =
                divided(chunks[i][c], scale);
        if constexpr (kHeld < kChunks) {
          const float *source = from + (long long)row * S::kColumns;
#pragma unroll 8
          for (int c = kHeld; c < kChunks; ++c)
            if (inRow(c) && row < rows)
              *reinterpret_cast<unsigned *>(place + c * 128) =
                  divided(load(source + c * 128, true), scale);
        }
        if (lane == 0 && row < rows)
          args.scale[firstRow + row] = scale;
      }
    }
  }
};

} // namespace detail

/// Counts a column tile, by one thread, whose results all are fenced. True for
/// the last one of its span: it then sees the others' results. entry: of the
/// row tile in the tile list.
template <class Config>
__device__ __forceinline__ bool isLastOfSpan(int4 *entry, int columnTile) {
  using S = Spans<Config>;
  if constexpr (S::kTilesOfSpan == 1) {
    return true;
  } else {
    int span = columnTile / S::kTilesOfSpan;
    int tiles = minimum(S::kTilesOfSpan, S::kTiles - span * S::kTilesOfSpan);
    unsigned before = atomicAdd(reinterpret_cast<unsigned *>(&entry->w),
                                1u << span * S::kBits);
    return int(before >> span * S::kBits & ((1u << S::kBits) - 1)) == tiles - 1;
  }
}

/// Quantizes rows [firstRow, firstRow + rows) of the column tile's span.
template <class Config, int kThreads>
__device__ __forceinline__ void quantizeSpan(const typename Config::Args &args,
                                             int thread, int firstRow, int rows,
                                             int columnTile) {
  using S = Spans<Config>;
  using Q = detail::SpanQuantizer<Config, kThreads>;
  if constexpr (S::kByGroup) {
    constexpr int kGroups = S::kSpan / 128;
    int first = columnTile / S::kTilesOfSpan * kGroups;
#pragma unroll 1
    for (int g = first; g < minimum(first + kGroups, S::kGroups); ++g)
      Q::group(args, thread, firstRow, rows, g);
  } else {
    Q::token(args, thread, firstRow, rows);
  }
}

/// One over the given scale of all values, the largest of all experts', by a
/// whole warp. `writes`: this warp stores the scale.
template <class Config>
__device__ __forceinline__ float givenInverse(const typename Config::Args &args,
                                              bool writes) {
  if constexpr (quantizesResult<Config>) {
    if constexpr (Spans<Config>::kStatic) {
      float largest = 0.0f;
#pragma unroll 1
      for (int i = int(threadIdx.x) % 32; i < Config::kScales; i += 32)
        largest = fmaxf(largest, args.static_scale[i]);
      largest = ptx::warpMaximum(largest);
      if (writes && threadIdx.x % 32 == 0)
        args.scale[0] = largest;
      return __fdiv_rn(1.0f, largest);
    }
  }
  return 1.0f;
}

/// Where an epilogue stores: the quantized values where their scale is known.
template <class Config>
__device__ __forceinline__ auto *
storedResult(const typename Config::Args &args) {
  if constexpr (quantizesResult<Config>) {
    if constexpr (Spans<Config>::kStatic)
      return args.data;
    else
      return args.result;
  } else {
    return args.result;
  }
}

/// Stores a chunk of a row: as it is, or 4 f32 times `inverse` as e4m3.
template <class Result, class Stored>
__device__ __forceinline__ void storeChunk(const Vector16 &chunk, Stored *to,
                                           float inverse) {
  if constexpr (kSame<Result, Stored>) {
    *reinterpret_cast<Vector16 *>(to) = chunk;
  } else {
    static_assert(kSame<Result, float> && kSame<Stored, e4m3>);
    float values[4];
    unpack<float>(chunk, values);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      values[i] = __fmul_rn(values[i], inverse);
    *reinterpret_cast<unsigned *>(to) = ptx::e4m3Pair(values[0], values[1]) |
                                        ptx::e4m3Pair(values[2], values[3])
                                            << 16;
  }
}

} // namespace moe
