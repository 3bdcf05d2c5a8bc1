//===- quantize_weights.cuh - float weights to codes and scales -*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Kernels that quantize the weights of a range of experts, which are stored as
// floats in rows of kColumns.
//   packScales computes one parameter for each group of kGroupRows x
//     kGroupColumns elements; groups at the ends of a matrix may be smaller.
//     kNumber selects the parameter: second scale (the scale of the scales),
//     scale or zero point.
//   packCodes computes the codes (quantized values) from these parameters, in
//     the order that kernels read (moe/kernel/pack.cuh).
// A weight has kParts matrices (gates and ups), which are quantized separately.
// With kAlternate, their rows alternate; otherwise one matrix follows the
// other. If groups are single rows, the parameters are in the order of the
// stored rows; otherwise all parameters of one matrix precede those of the next
// matrix. Scales that are powers of two may be stored as f32.
//
// Args of packScales, in order. The condition for the presence of an argument
// is in brackets. All pointers start at expert 0.
//   source: Element [experts, kRows, kColumns]
//   destination: one parameter for each group
//   scale [if kNumber is ZeroPoint]
//   second_scale: float [if there are two levels and kNumber is not
//     SecondScale]
//   int first_expert
//   int experts
// kGroupThreads threads of a CTA reduce one group. Grid.x: ceildiv(experts *
// groups, kThreads / kGroupThreads).
//
// Args of packCodes, in order:
//   source: starts at expert first_expert
//   unsigned char destination: starts at expert 0, as do all following pointers
//   scale
//   second_scale: float [if there are two levels]
//   zero_point: unsigned char [if kZeroPoints]
//   int first_expert
//   int experts
// Grid.x: ceildiv(experts * kRows * kColumns / kElements, kChunksPerCta).
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/concepts.cuh"
#include "moe/core/gate_up.cuh"
#include "moe/core/pdl.cuh"
#include "moe/core/types.cuh"
#include "moe/math/weight_scaling.cuh"

namespace moe {

/// The parameter that packScales computes for each group.
enum class WeightNumber { SecondScale, Scale, ZeroPoint };

template <class Config> constexpr bool checkQuantizedWeights() {
  checkCommonConfig<Config>();
  MOE_REQUIRE_TYPE(Config, Element, "element type in the checkpoint");
  MOE_REQUIRE_TYPE(Config, Code, "element type of the codes");
  MOE_REQUIRE_TYPE(Config, Scale, "element type of the scales");
  MOE_REQUIRE_TYPE(Config, Rule, "the rule of power-of-two scales");
  MOE_REQUIRE_VALUE(Config, kShares, "the granularity of scales");
  MOE_REQUIRE_VALUE(Config, kZeroPoints, "true if there are zero points");
  MOE_REQUIRE_VALUE(Config, kRows, "weight rows per expert");
  MOE_REQUIRE_VALUE(Config, kColumns, "elements per row");
  MOE_REQUIRE_VALUE(Config, kParts, "matrices per expert");
  MOE_REQUIRE_VALUE(Config, kAlternate, "true if gate and up rows alternate");
  MOE_REQUIRE_VALUE(Config, kGroupRows, "rows per group");
  MOE_REQUIRE_VALUE(Config, kGroupColumns, "columns per group");
  static_assert(Config::kRows % Config::kParts == 0,
                "kRows must be a multiple of kParts");
  if constexpr (requires { Config::kNumber; }) {
    MOE_REQUIRE_VALUE(Config, kGroupThreads, "threads per group");
    static_assert(
        Config::kGroupThreads == Config::kThreads ||
            (Config::kGroupThreads <= 32 && 32 % Config::kGroupThreads == 0),
        "kGroupThreads must divide 32 or equal kThreads");
  } else {
    MOE_REQUIRE_VALUE(Config, kInterleave, "rows per block");
    MOE_REQUIRE_VALUE(Config, kElements, "elements per chunk");
    MOE_REQUIRE_VALUE(Config, kChunksPerCta, "chunks that a CTA writes");
    static_assert(Config::kColumns % Config::kElements == 0 &&
                      Config::kElements * kBits<typename Config::Code> % 8 == 0,
                  "chunks must be whole bytes, and rows whole chunks");
  }
  return true;
}

/// Returns the dynamic shared memory of both kernels in bytes, 0.
template <class Config> constexpr int sharedBytes() {
  static_assert(checkQuantizedWeights<Config>());
  return 0;
}

namespace detail {

template <class Config>
using WeightScalingOf =
    quant::WeightScaling<typename Config::Code, typename Config::Scale,
                         typename Config::Rule, Config::kShares,
                         Config::kZeroPoints>;

/// The groups of an expert, and the index of each group's parameter. A part is
/// one of the kParts matrices.
template <class Config> struct WeightGroups {
  static constexpr int kPartRows = Config::kRows / Config::kParts;
  static constexpr int kDown = ceilDiv(kPartRows, Config::kGroupRows);
  static constexpr int kAcross =
      ceilDiv(Config::kColumns, Config::kGroupColumns);
  static constexpr int kCount = Config::kParts * kDown * kAcross;
  static constexpr bool kByRow = Config::kGroupRows == 1;

  static __device__ __forceinline__ int storedRow(int part, int row) {
    return Config::kAlternate ? row * Config::kParts + part
                              : part * kPartRows + row;
  }
  /// Returns the part that a stored row belongs to.
  static __device__ __forceinline__ int partOf(int stored) {
    return Config::kAlternate ? stored % Config::kParts : stored / kPartRows;
  }
  /// Returns the index of the parameter for the element at (stored, column).
  static __device__ __forceinline__ int numberOf(int stored, int column) {
    int down = stored;
    if constexpr (!kByRow) {
      int part = partOf(stored);
      int row = Config::kAlternate ? stored / Config::kParts
                                   : stored - part * kPartRows;
      down = part * kDown + row / Config::kGroupRows;
    }
    return down * kAcross + column / Config::kGroupColumns;
  }
};

/// Loads kCount adjacent weights as f32. `from` is aligned to one vector load.
template <class T, int kCount>
__device__ __forceinline__ void loadWeights(const T *from,
                                            float (&values)[kCount]) {
  if constexpr (kCount % kPerVector<T> == 0) {
#pragma unroll
    for (int i = 0; i < kCount / kPerVector<T>; ++i)
      unpack<T>(reinterpret_cast<const Vector16 *>(from)[i],
                values + i * kPerVector<T>);
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      values[i] = toFloat(from[i]);
  }
}

/// Reduces `range` over the threads of a group and returns the group's range in
/// each of these threads. All threads of the CTA must call it.
template <int kThreads, int kGroupThreads>
__device__ __forceinline__ quant::Range rangeOfGroup(quant::Range range) {
#pragma unroll
  for (int distance = minimum(kGroupThreads, 32) / 2; distance > 0;
       distance /= 2) {
    range.least =
        fminf(range.least, __shfl_xor_sync(0xffffffffu, range.least, distance));
    range.most =
        fmaxf(range.most, __shfl_xor_sync(0xffffffffu, range.most, distance));
  }
  if constexpr (kGroupThreads > 32) {
    __shared__ float least[kThreads / 32], most[kThreads / 32];
    if (threadIdx.x % 32 == 0) {
      least[threadIdx.x / 32] = range.least;
      most[threadIdx.x / 32] = range.most;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kThreads / 32; ++i) {
      range.least = fminf(range.least, least[i]);
      range.most = fmaxf(range.most, most[i]);
    }
  }
  return range;
}

} // namespace detail

template <class Config>
__device__ __forceinline__ void packScales(const typename Config::Args &args) {
  static_assert(checkQuantizedWeights<Config>());
  awaitPredecessor<Config>();
  using Groups = detail::WeightGroups<Config>;
  using Scaling = detail::WeightScalingOf<Config>;
  constexpr int kLanes = Config::kGroupThreads;
  // The widest vector that divides rows and groups evenly.
  constexpr int kAligned = Config::kColumns | Config::kGroupColumns |
                           kPerVector<typename Config::Element>;
  constexpr int kWide = kAligned & -kAligned;
  constexpr int kPerRow = ceilDiv(Config::kGroupColumns, kWide);
  const long long item = (long long)blockIdx.x * (Config::kThreads / kLanes) +
                         int(threadIdx.x) / kLanes;
  const bool exists = item < (long long)args.experts * Groups::kCount;
  const long long expert = args.first_expert + item / Groups::kCount;
  const int number = int(item % Groups::kCount);
  const int down = number / Groups::kAcross;
  const int firstColumn = number % Groups::kAcross * Config::kGroupColumns;
  const int part = Groups::kByRow ? Groups::partOf(down) : down / Groups::kDown;
  const int firstRow = down % Groups::kDown * Config::kGroupRows;
  const int rows = min(Config::kGroupRows, Groups::kPartRows - firstRow);
  const auto *source =
      args.source + expert * ((long long)Config::kRows * Config::kColumns);
  quant::Range range;
  if (exists) {
#pragma unroll 4
    for (int i = int(threadIdx.x) % kLanes; i < rows * kPerRow; i += kLanes) {
      const int stored = Groups::kByRow
                             ? down
                             : Groups::storedRow(part, firstRow + i / kPerRow);
      const int column = firstColumn + i % kPerRow * kWide;
      if (Config::kColumns % Config::kGroupColumns != 0 &&
          column >= Config::kColumns)
        continue;
      float values[kWide];
      detail::loadWeights(
          source + (long long)stored * Config::kColumns + column, values);
#pragma unroll
      for (int k = 0; k < kWide; ++k)
        range.take(values[k]);
    }
  }
  range = detail::rangeOfGroup<Config::kThreads, kLanes>(range);
  if (!exists || int(threadIdx.x) % kLanes != 0)
    return;
  float outer = 1.0f;
  if constexpr (requires { args.second_scale; })
    outer = args.second_scale[expert * Config::kParts + part];
  const long long at = expert * Groups::kCount + number;
  if constexpr (Config::kNumber == WeightNumber::SecondScale)
    args.destination[at] = Scaling::second(range.largest());
  else if constexpr (Config::kNumber != WeightNumber::Scale)
    args.destination[at] = (unsigned char)Scaling::zeroPoint(
        range, Scaling::factor(args.scale[at], outer));
  else if constexpr (kSame<RemoveReference<decltype(*args.destination)>,
                           typename Config::Scale>)
    args.destination[at] = Scaling::scale(range, outer);
  else
    args.destination[at] = toFloat(Scaling::scale(range, outer));
}

template <class Config>
__device__ __forceinline__ void packCodes(const typename Config::Args &args) {
  static_assert(checkQuantizedWeights<Config>());
  awaitPredecessor<Config>();
  using Groups = detail::WeightGroups<Config>;
  using Scaling = detail::WeightScalingOf<Config>;
  constexpr int kBits = moe::kBits<typename Config::Code>;
  constexpr int kElements = Config::kElements;
  constexpr int kChunks = Config::kColumns / kElements;
  constexpr int kBytes = kElements * kBits / 8;
  constexpr int kPiece = kBytes & -kBytes;
  // True if all elements of a chunk share one scale.
  constexpr bool kOne = Config::kGroupColumns % kElements == 0 ||
                        Config::kGroupColumns >= Config::kColumns;
  const long long first = (long long)blockIdx.x * Config::kChunksPerCta;
  const long long end = min(first + Config::kChunksPerCta,
                            (long long)args.experts * Config::kRows * kChunks);
  for (long long v = first + threadIdx.x; v < end; v += Config::kThreads) {
    const long long row = v / kChunks;
    const int column = int(v % kChunks) * kElements;
    const long long inStep = row / Config::kRows;
    const int packed = int(row % Config::kRows);
    int stored = packed;
    if constexpr (Config::kInterleave > 0) {
      const GateUpRow gateUp = gateUpRow<Config::kInterleave>(packed);
      stored = StoredOrder<Config>::Type::template row<Config::kRows / 2>(
          gateUp.up, gateUp.index);
    }
    const long long expert = args.first_expert + inStep;
    float values[kElements];
    detail::loadWeights(args.source +
                            (inStep * Config::kRows + stored) *
                                (long long)Config::kColumns +
                            column,
                        values);
    float outer = 1.0f;
    if constexpr (requires { args.second_scale; })
      outer =
          args.second_scale[expert * Config::kParts + Groups::partOf(stored)];
    float factor = 0.0f;
    int zeroPoint = 0;
    unsigned long long bits = 0;
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      if (i == 0 || !kOne) {
        const long long at =
            expert * Groups::kCount + Groups::numberOf(stored, column + i);
        factor = Scaling::factor(args.scale[at], outer);
        if constexpr (Config::kZeroPoints)
          zeroPoint = args.zero_point[at];
      }
      bits |= (unsigned long long)Scaling::code(values[i], factor, zeroPoint)
              << i * kBits;
    }
    unsigned char *to = args.destination + ((expert * Config::kRows + packed) *
                                                (long long)kChunks +
                                            column / kElements) *
                                               kBytes;
#pragma unroll
    for (int i = 0; i < kBytes / kPiece; ++i) {
      const unsigned long long piece = bits >> i * kPiece * 8;
      if constexpr (kPiece == 8)
        *reinterpret_cast<unsigned long long *>(to) = piece;
      else if constexpr (kPiece == 4)
        reinterpret_cast<unsigned *>(to)[i] = unsigned(piece);
      else if constexpr (kPiece == 2)
        reinterpret_cast<unsigned short *>(to)[i] = (unsigned short)piece;
      else
        to[i] = (unsigned char)piece;
    }
  }
}

} // namespace moe
