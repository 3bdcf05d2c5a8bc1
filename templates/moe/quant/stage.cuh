//===- stage.cuh - rows to shared memory, quantized -------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Copies a few rows from global to shared memory with one CTA. The rows are
// copied unchanged (Unscaled), or quantized to e4m3 with a Scaling
// (moe/math/scaling.cuh) with results bit-identical to
// moe/kernel/quantize.cuh. All threads call prepare(), measure() and finish(),
// in this order. The caller places a CTA barrier between any two of these calls
// and after the last.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/types.cuh"
#include "moe/quant/lanes.cuh"

namespace moe::quant {

/// The rows that one CTA copies: up to kMaxRows rows of kK values. `Source`,
/// `To`: element types in global and in shared memory.
template <class Scaling, class Source, class To, int kK, int kMaxRows,
          int kThreads>
struct Stage {
  static constexpr bool kByRow = kSame<Scaling, Token>;
  static constexpr bool kDynamic = kByRow || kSame<Scaling, DynamicTensor>;
  static constexpr int kWarps = kThreads / 32;
  static constexpr int kWide = 8;
  static constexpr int kPerRow = kK / kWide;

  struct Shared {
    int largest[kByRow ? kMaxRows : 1]; ///< largest magnitude per row, or of
                                        ///< all rows, as f32 bits
  };

  /// Number of segments of 256 values per row. Each warp processes every
  /// kWarps-th segment.
  static constexpr int kPieces = ceilDiv(kK, 32 * kWide);
  static constexpr int kPiecesOfWarp = ceilDiv(kMaxRows * kPieces, kWarps);
  /// True if a thread keeps the values of its segments in registers from
  /// measure() to finish(). Otherwise finish() reads them from global memory
  /// again, and these loads would queue after the weight loads that the caller
  /// issues between the two calls.
  static constexpr bool kKeeps = kDynamic && kPiecesOfWarp <= 8;
  struct Kept {
    float values[kKeeps ? kPiecesOfWarp : 1][kWide];
  };

  const Source *source;
  long long stride;
  int rows;
  To *data;      ///< the rows in shared memory
  float *scales; ///< the rows' scales in shared memory

  static __device__ __forceinline__ void prepare(Shared &shared) {
    if constexpr (kDynamic)
      if (threadIdx.x < sizeof(shared.largest) / 4)
        shared.largest[threadIdx.x] = 0;
  }

  __device__ __forceinline__ void load(int row, int column,
                                       float (&values)[kWide]) const {
    constexpr int kVectors = kWide / kPerVector<Source>;
    const Vector16 *at =
        reinterpret_cast<const Vector16 *>(source + row * stride + column);
#pragma unroll
    for (int i = 0; i < kVectors; ++i)
      unpack<Source>(at[i], values + i * kPerVector<Source>);
  }

  __device__ __forceinline__ void store(int row, int column,
                                        const float (&values)[kWide]) const {
    Vector8 vector;
#pragma unroll
    for (int i = 0; i < 2; ++i)
      vector.words[i] = ptx::e4m3Pair(values[4 * i], values[4 * i + 1]) |
                        ptx::e4m3Pair(values[4 * i + 2], values[4 * i + 3])
                            << 16;
    *reinterpret_cast<Vector8 *>(data + row * kK + column) = vector;
  }

  /// Returns this thread's first column in a segment (`piece`).
  static __device__ __forceinline__ int columnOf(int piece) {
    int lane = (kThreads - 1 - int(threadIdx.x)) % 32;
    return (piece % kPieces * 32 + lane) * kWide;
  }

  /// Divides values by their row's scale, or by the scale that all rows share,
  /// and stores them.
  struct Scaled {
    const Stage &stage;
    const Shared &shared;
    float scale, inverse;
    __device__ __forceinline__ void store(int row, int column,
                                          float (&values)[kWide]) const {
      float ofRow = scale;
      if constexpr (kByRow)
        ofRow = Scaling::scale(__int_as_float(shared.largest[row]));
      Divisor divisor(ofRow);
#pragma unroll
      for (int j = 0; j < kWide; ++j)
        values[j] = kByRow ? divisor.quotient(values[j])
                           : __fmul_rn(values[j], inverse);
      stage.store(row, column, values);
      if (kByRow && column == 0)
        stage.scales[row] = ofRow;
    }
  };

  /// Processes the rows as far as possible before all maxima are known. With
  /// Unscaled, copies the rows. With scales of groups, quantizes them. With a
  /// dynamic scale per row or of all rows, computes the maxima of the first
  /// `counted` rows. Work is assigned from the last warp on, because the first
  /// warps also compute the routing.
  __device__ __forceinline__ void measure(Shared &shared, int counted,
                                          Kept &kept) const {
    int thread = kThreads - 1 - int(threadIdx.x);
    if constexpr (kSame<Scaling, Unscaled>) {
      static_assert(kSame<Source, To>);
      constexpr int kVectors = kK / kPerVector<To>;
#pragma unroll 4
      for (int v = thread; v < rows * kVectors; v += kThreads)
        reinterpret_cast<Vector16 *>(data)[v] =
            reinterpret_cast<const Vector16 *>(
                source + v / kVectors * stride)[v % kVectors];
    } else if constexpr (ofGroup<Scaling>) {
      constexpr int kLanes = 128 / kWide;
      constexpr int kGroups = ceilDiv(kK, 128);
      unsigned lanes = 0xffffu << (threadIdx.x & 16u);
#pragma unroll 2
      for (int item = thread / kLanes; item < rows * kGroups;
           item += kThreads / kLanes) {
        int row = item / kGroups;
        int column = item % kGroups * 128 + thread % kLanes * kWide;
        bool exists = kK % 128 == 0 || column < kK;
        float values[kWide] = {};
        if (exists)
          load(row, column, values);
        float scale = Scaling::scale(largestOfLanes<kLanes>(values, lanes));
        Divisor divisor(scale);
#pragma unroll
        for (int i = 0; i < kWide; ++i)
          values[i] = divisor.quotient(values[i]);
        if (exists)
          store(row, column, values);
        if (thread % kLanes == 0)
          scales[item] = scale;
      }
    } else if constexpr (kKeeps) {
      int warp = thread / 32;
#pragma unroll
      for (int i = 0; i < kPiecesOfWarp; ++i) {
        int piece = warp + i * kWarps, row = piece / kPieces;
        int column = columnOf(piece);
        bool exists = row < rows && column < kK;
#pragma unroll
        for (int j = 0; j < kWide; ++j)
          kept.values[i][j] = 0.0f;
        if (exists)
          load(row, column, kept.values[i]);
      }
#pragma unroll
      for (int i = 0; i < kPiecesOfWarp; ++i) {
        int row = (warp + i * kWarps) / kPieces;
        float largest = ptx::warpMaximum(largestOfLanes<1>(kept.values[i]));
        if (row < counted && thread % 32 == 0)
          atomicMax(&shared.largest[kByRow ? row : 0], __float_as_int(largest));
      }
    } else if constexpr (kDynamic) {
      // A warp reads 1024 values of a row at a time.
      constexpr int kSegments = ceilDiv(kK, 1024);
#pragma unroll 1
      for (int item = thread / 32; item < counted * kSegments; item += kWarps) {
        int row = item / kSegments;
        float largest = 0.0f;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          int column = item % kSegments * 1024 + (i * 32 + thread % 32) * kWide;
          float values[kWide];
          if (column < kK) {
            load(row, column, values);
            largest = fmaxf(largest, largestOfLanes<1>(values));
          }
        }
        largest = ptx::warpMaximum(largest);
        if (thread % 32 == 0)
          atomicMax(&shared.largest[kByRow ? row : 0], __float_as_int(largest));
      }
    }
  }

  /// Quantizes the rows that measure() has not quantized. `staticScale`:
  /// [kScales] static scales, whose maximum is the scale (StaticTensor).
  template <int kScales>
  __device__ __forceinline__ void
  finish(const Shared &shared, const float *staticScale, Kept &kept) const {
    if constexpr (kDynamic || kSame<Scaling, StaticTensor>) {
      float scale = 1.0f;
      if constexpr (kSame<Scaling, StaticTensor>) {
        float largest = 0.0f;
        for (int i = int(threadIdx.x) % 32; i < kScales; i += 32)
          largest = fmaxf(largest, staticScale[i]);
        scale = ptx::warpMaximum(largest);
      } else if constexpr (!kByRow) {
        scale = Scaling::scale(__int_as_float(shared.largest[0]));
      }
      Scaled scaled{*this, shared, scale, __fdiv_rn(1.0f, scale)};
      if constexpr (kKeeps) {
        int warp = (kThreads - 1 - int(threadIdx.x)) / 32;
#pragma unroll
        for (int i = 0; i < kPiecesOfWarp; ++i) {
          int piece = warp + i * kWarps, row = piece / kPieces;
          int column = columnOf(piece);
          if (row < rows && column < kK)
            scaled.store(row, column, kept.values[i]);
        }
      } else {
#pragma unroll 2
        for (int i = int(threadIdx.x); i < rows * kPerRow; i += kThreads) {
          int row = i / kPerRow, column = i % kPerRow * kWide;
          float values[kWide];
          load(row, column, values);
          scaled.store(row, column, values);
        }
      }
      if (!kByRow && threadIdx.x == 0)
        scales[0] = scale;
    }
  }
};

} // namespace moe::quant
