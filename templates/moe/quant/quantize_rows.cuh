//===- quantize_rows.cuh - quantization of rows to 8 bits -------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The work of one CTA that quantizes a part of a matrix in global memory.
// Kernel `quantize` uses it, and so does kernel `route`, in which some CTAs
// quantize while others compute the routing. `block` is the CTA's index among
// the CTAs that quantize.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/types.cuh"
#include "moe/quant/lanes.cuh"

namespace moe {

namespace detail {

/// Number of elements that a thread loads or stores at a time.
inline constexpr int kQuantizeWidth = 8;

/// Loads 8 elements and converts them to f32.
template <class T>
__device__ __forceinline__ void load8(const T *source, float (&values)[8]) {
  constexpr int kVectors = 8 / kPerVector<T>;
#pragma unroll
  for (int i = 0; i < kVectors; ++i)
    unpack<T>(reinterpret_cast<const Vector16 *>(source)[i],
              values + i * kPerVector<T>);
}

/// Rounds 8 values to 8-bit elements and stores them.
template <class T>
__device__ __forceinline__ void store8(const float (&values)[8], T *to) {
  Vector8 vector;
#pragma unroll
  for (int i = 0; i < 2; ++i)
    vector.words[i] = packBytes<T>(values + 4 * i);
  *reinterpret_cast<Vector8 *>(to) = vector;
}

/// Returns true if the row exists. In batched layers each expert has
/// args.tokens slots, of which only the first expert_num_tokens[expert] contain
/// rows.
template <class Args>
__device__ __forceinline__ bool isRow(const Args &args, int row) {
  if constexpr (requires { args.expert_num_tokens; }) {
    int expert = int(unsigned(row) / unsigned(args.tokens));
    return row - expert * args.tokens < args.expert_num_tokens[expert];
  } else {
    return true;
  }
}

/// Returns the maximum over each group of kGroup adjacent threads of the CTA,
/// to all threads of the group. Contains a CTA barrier.
template <int kThreads, int kGroup, class Scaling = void>
__device__ __forceinline__ float groupMaximum(float value) {
  __shared__ float warps[kThreads / 32];
  if constexpr (quant::propagatesNan<Scaling>)
    value = __uint_as_float(ptx::warpMaximum(__float_as_uint(value)));
  else
    value = ptx::warpMaximum(value);
  if (threadIdx.x % 32 == 0)
    warps[threadIdx.x / 32] = value;
  __syncthreads();
  int first = int(threadIdx.x) / kGroup * (kGroup / 32);
  value = warps[first];
#pragma unroll
  for (int i = 1; i < kGroup / 32; ++i)
    value = quant::largerOf<Scaling>(value, warps[first + i]);
  return value;
}

/// Returns the number of weighted rows per input row: kPairs if the token's row
/// is multiplied by the weight of each of its pairs, else 1.
template <class Config> constexpr int weighedPairs() {
  if constexpr (requires { Config::kPairs; })
    return Config::kPairs;
  else
    return 1;
}

/// Multiplies elements of a row by the row's weight if Args has row_weights.
template <class Config, int kCount>
__device__ __forceinline__ void weighRow(const typename Config::Args &args,
                                         long long row,
                                         float (&values)[kCount]) {
  if constexpr (requires { args.row_weights; }) {
    float weight = args.row_weights[row];
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      values[i] = __fmul_rn(values[i], weight);
  }
}

/// Loads 8 elements of a row that is to be quantized. If Args has row_weights,
/// row `row` is the product of the pair's token row and the pair's weight.
template <class Config>
__device__ __forceinline__ void loadRow8(const typename Config::Args &args,
                                         long long row, int column,
                                         float (&values)[8]) {
  load8(args.input + row / weighedPairs<Config>() * args.input_row_stride +
            column,
        values);
  weighRow<Config>(args, row, values);
}

/// The element type to which quant::Rounded rounds.
template <class Config>
using RoundedData = RemoveReference<decltype(*Config::Args::data)>;
template <class Config> constexpr int roundedStep() {
  return maximum(kPerVector<typename Config::Input>,
                 kPerVector<RoundedData<Config>>);
}

template <class Config> constexpr bool checkQuantizedColumns() {
  if constexpr (kSame<typename Config::Scaling, quant::Rounded>)
    static_assert(Config::kColumns % roundedStep<Config>() == 0,
                  "rows must be whole 16-byte chunks of input and result");
  else
    static_assert(Config::kColumns % (requires {
                    Config::Scaling::kEmulated;
                  } ? 8 : 16) == 0,
                  "rows must be whole 16-byte chunks of the result");
  return true;
}

template <class Config> struct Quantize {
  using Args = typename Config::Args;
  static constexpr int kWide = kQuantizeWidth;
  static constexpr int kColumns = Config::kColumns;
  static constexpr int kGroups = ceilDiv(kColumns, 128);

  static __device__ __forceinline__ void groups(const Args &args, int rows,
                                                int block) {
    constexpr int kLanes = 128 / kWide;
    constexpr int kPerCta = Config::kThreads / kLanes;
    long long item = (long long)block * kPerCta + int(threadIdx.x) / kLanes;
    if (item >= (long long)rows * kGroups)
      return;
    long long row = item / kGroups;
    if (!isRow(args, int(row)))
      return;
    int group = int(item % kGroups);
    int column = group * 128 + int(threadIdx.x) % kLanes * kWide;
    float values[kWide] = {};
    bool exists = kColumns % 128 == 0 || column < kColumns;
    if (exists)
      loadRow8<Config>(args, row, column, values);
    // All lanes of a group reach this point, or no lane does.
    unsigned lanes = 0xffffu << (threadIdx.x & 16u);
    float scale =
        Config::Scaling::scale(quant::largestOfLanes<kLanes>(values, lanes));
    quant::Divisor divisor(scale);
#pragma unroll
    for (int i = 0; i < kWide; ++i)
      values[i] = divisor.quotient(values[i]);
    if (exists)
      store8(values, args.data + row * kColumns + column);
    if (threadIdx.x % kLanes == 0)
      args.scale[item] = scale;
  }

  /// Returns the number of threads per row, at least a warp. A thread has at
  /// most 16 columns, unless this would need more than 256 threads. If a whole
  /// CTA were assigned to a short row, too few loads would be in flight.
  static constexpr int rowThreads(int threads) {
    return threads < 256 && threads * 2 * kWide < kColumns
               ? rowThreads(threads * 2)
               : threads;
  }
  static constexpr int kRowThreads = minimum(Config::kThreads, rowThreads(32));
  static constexpr int kRowsPerCta = Config::kThreads / kRowThreads;
  static_assert(Config::kThreads % kRowThreads == 0,
                "kThreads must be a multiple of the threads per row");

  static __device__ __forceinline__ void token(const Args &args, int rows,
                                               int block) {
    int row = block * kRowsPerCta + int(threadIdx.x) / kRowThreads;
    int thread = int(threadIdx.x) % kRowThreads;
    bool exists = row < rows && isRow(args, row);
    // If the register budget allows, a thread keeps its part of the row in
    // registers. All loads of a row are then in flight at the same time.
    constexpr int kStep = kRowThreads * kWide;
    constexpr int kSteps = ceilDiv(kColumns, kStep);
    constexpr int kMostKept = Config::kThreads <= 256 ? 8 : 2;
    constexpr int kKept = kSteps <= kMostKept ? kSteps : 1;
    using Scaling = typename Config::Scaling;
    float kept[kKept][kWide] = {};
    float largest = 0.0f;
    auto take = [&](int step, float (&values)[kWide]) {
      int c = thread * kWide + step * kStep;
      if (exists && (kColumns % kStep == 0 || c < kColumns))
        loadRow8<Config>(args, row, c, values);
      return c;
    };
    if constexpr (kKept == kSteps) {
#pragma unroll
      for (int step = 0; step < kSteps; ++step)
        take(step, kept[step]);
#pragma unroll
      for (int step = 0; step < kSteps; ++step)
        largest = quant::largerOf<Scaling>(
            largest, quant::largestOfLanes<1, Scaling>(kept[step]));
    } else {
#pragma unroll 2
      for (int step = 0; step < kSteps; ++step) {
        float values[kWide] = {};
        take(step, values);
        largest = quant::largerOf<Scaling>(
            largest, quant::largestOfLanes<1, Scaling>(values));
      }
    }
    float scale = Scaling::scale(
        groupMaximum<Config::kThreads, kRowThreads, Scaling>(largest));
    quant::Divisor divisor(scale);
    auto put = [&](int step, float (&values)[kWide]) {
      int c = thread * kWide + step * kStep;
#pragma unroll
      for (int i = 0; i < kWide; ++i)
        values[i] = divisor.quotient(values[i]);
      if (exists && (kColumns % kStep == 0 || c < kColumns))
        store8(values, args.data + (long long)row * kColumns + c);
    };
    if constexpr (kKept == kSteps) {
#pragma unroll
      for (int step = 0; step < kSteps; ++step)
        put(step, kept[step]);
    } else {
#pragma unroll 2
      for (int step = 0; step < kSteps; ++step) {
        float values[kWide] = {};
        take(step, values);
        put(step, values);
      }
    }
    if (exists && thread == 0)
      args.scale[row] = scale;
  }

  static __device__ __forceinline__ void tensor(const Args &args, int rows,
                                                int block, float scale) {
    float inverse = __fdiv_rn(1.0f, scale);
    constexpr int kPerRow = kColumns / kWide;
    int first = block * Config::kBlockRows;
    int count = min(Config::kBlockRows, rows - first) * kPerRow;
    for (int i = int(threadIdx.x); i < count; i += Config::kThreads) {
      long long row = first + i / kPerRow;
      if (!isRow(args, int(row)))
        continue;
      int column = i % kPerRow * kWide;
      float values[kWide];
      loadRow8<Config>(args, row, column, values);
#pragma unroll
      for (int j = 0; j < kWide; ++j)
        values[j] = __fmul_rn(values[j], inverse);
      store8(values, args.data + row * kColumns + column);
    }
    if (block == 0 && threadIdx.x == 0)
      args.scale[0] = scale;
  }

  /// Converts whole 16-byte vectors of the input to whole vectors of the
  /// result.
  static __device__ __forceinline__ void rounded(const Args &args, int rows,
                                                 int block) {
    using Input = typename Config::Input;
    using Data = RoundedData<Config>;
    constexpr int kStep = roundedStep<Config>();
    constexpr int kPerRow = kColumns / kStep;
    int first = block * Config::kBlockRows;
    int count = min(Config::kBlockRows, rows - first) * kPerRow;
    for (int i = int(threadIdx.x); i < count; i += Config::kThreads) {
      long long row = first + i / kPerRow;
      if (!isRow(args, int(row)))
        continue;
      int column = i % kPerRow * kStep;
      auto from = reinterpret_cast<const Vector16 *>(
          args.input + row / weighedPairs<Config>() * args.input_row_stride +
          column);
      auto to =
          reinterpret_cast<Vector16 *>(args.data + row * kColumns + column);
      float values[kStep];
#pragma unroll
      for (int j = 0; j < kStep / kPerVector<Input>; ++j)
        unpack<Input>(from[j], values + j * kPerVector<Input>);
      weighRow<Config>(args, row, values);
#pragma unroll
      for (int j = 0; j < kStep / kPerVector<Data>; ++j)
        to[j] = pack<Data>(values + j * kPerVector<Data>);
    }
  }
};

/// Quantizes the rows of CTA `block`, out of `rows` rows. `Scaling`: any except
/// a dynamic tensor scale, which needs the maximum of all rows.
template <class Config>
__device__ __forceinline__ void quantizeRows(const typename Config::Args &args,
                                             int rows, int block) {
  using Q = Quantize<Config>;
  using Scaling = typename Config::Scaling;
  if constexpr (quant::ofGroup<Scaling>) {
    Q::groups(args, rows, block);
  } else if constexpr (quant::ofToken<Scaling>) {
    Q::token(args, rows, block);
  } else if constexpr (kSame<Scaling, quant::Rounded>) {
    Q::rounded(args, rows, block);
  } else {
    static_assert(kSame<Scaling, quant::StaticTensor>);
    float largest = 0.0f;
    for (int i = int(threadIdx.x); i < Config::kScales; i += Config::kThreads)
      largest = fmaxf(largest, args.static_scale[i]);
    Q::tensor(args, rows, block,
              groupMaximum<Config::kThreads, Config::kThreads>(largest));
  }
}

} // namespace detail

} // namespace moe
