//===- emulate_rows.cuh - emulated quantization of rows ---------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The work of one CTA that quantizes with a Scaling of moe/math/emulated.cuh,
// in moe/kernel/quantize.cuh or moe/kernel/route.cuh. The result is emulated
// values, which are 16-bit floats without scales, or codes (quantized values)
// with one scale per group. A thread has 8 contiguous values of a row. The
// threads that share a scale are lanes of one warp.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/quant/lanes.cuh"
#include "moe/quant/quantize_rows.cuh"

namespace moe::detail {

template <class Config> struct Emulate {
  using Args = typename Config::Args;
  using Scaling = typename Config::Scaling;
  using Data = RemoveReference<decltype(*Args::data)>;
  static constexpr int kWide = 8;
  static constexpr int kColumns = Config::kColumns;
  static constexpr int kLanes = quant::kLanesOfScale<Scaling>;
  static constexpr int kGroup = kLanes * kWide;
  static constexpr bool kEncoded = quant::isEncoded<Scaling>;
  static_assert(kEncoded || sizeof(Data) == 2,
                "emulated values must have 16 bits");

  /// Quantizes 8 values of a row and stores the result. Whole warps call this
  /// function. `exists`: false if the row or the columns are past the end; the
  /// values are then zeros and nothing is stored.
  static __device__ __forceinline__ void leave(const Args &args, bool exists,
                                               long long row, int column,
                                               float outer,
                                               float (&values)[kWide]) {
    if constexpr (kEncoded) {
      float scale = quant::encode<Scaling>(values, outer);
      if (exists)
        quant::storeCodes8<kColumns, kGroup>(values, scale, row, column,
                                             args.data, args.scale);
    } else {
      quant::emulate<Scaling>(values, outer);
      if (exists)
        *reinterpret_cast<Vector16 *>(args.data + row * kColumns + column) =
            pack<Data>(values);
    }
  }

  static __device__ __forceinline__ void groups(const Args &args, int rows,
                                                int block, float outer) {
    constexpr int kGroups = ceilDiv(kColumns, kGroup);
    constexpr int kPerCta = Config::kThreads / kLanes;
    long long item = (long long)block * kPerCta + int(threadIdx.x) / kLanes;
    long long row = item / kGroups;
    int column =
        int(item % kGroups) * kGroup + int(threadIdx.x) % kLanes * kWide;
    bool exists = row < rows && column < kColumns && isRow(args, int(row));
    float values[kWide] = {};
    if (exists)
      loadRow8<Config>(args, row, column, values);
    leave(args, exists, row, column, outer, values);
  }

  /// Quantizes rows with one outer scale per row. Rows are assigned to threads
  /// as in Quantize::token. Each row is read twice: for its maximum, and to
  /// quantize it.
  static __device__ __forceinline__ void byRow(const Args &args, int rows,
                                               int block) {
    constexpr int kRowThreads = Quantize<Config>::kRowThreads;
    constexpr int kStep = kRowThreads * kWide;
    int row = block * (Config::kThreads / kRowThreads) +
              int(threadIdx.x) / kRowThreads;
    int thread = int(threadIdx.x) % kRowThreads;
    bool isThere = row < rows && isRow(args, row);
    float largest = 0.0f;
#pragma unroll 2
    for (int column = thread * kWide; column < kColumns; column += kStep) {
      float values[kWide] = {};
      if (isThere)
        loadRow8<Config>(args, row, column, values);
      largest = fmaxf(largest, quant::largestOfLanes<1>(values));
    }
    float outer =
        Scaling::outer(groupMaximum<Config::kThreads, kRowThreads>(largest));
    if constexpr (kEncoded)
      if (isThere && thread == 0)
        args.second_scale[row] = __fdiv_rn(1.0f, outer);
#pragma unroll 2
    for (int first = 0; first < kColumns; first += kStep) {
      int column = first + thread * kWide;
      bool exists = isThere && column < kColumns;
      float values[kWide] = {};
      if (exists)
        loadRow8<Config>(args, row, column, values);
      leave(args, exists, row, column, outer, values);
    }
  }
};

/// Quantizes the rows of CTA `block`, out of `rows` rows. `outer`: the outer
/// scale from the maxima of kernel amax, if the Scaling has kOfMaxima.
template <class Config>
__device__ __forceinline__ void emulateRows(const typename Config::Args &args,
                                            int rows, int block,
                                            float outer = 1.0f) {
  using E = Emulate<Config>;
  using Scaling = typename Config::Scaling;
  if constexpr (Scaling::kOuter == quant::Outer::Row) {
    E::byRow(args, rows, block);
  } else {
    if constexpr (Scaling::kStored) {
      const float *stored;
      if constexpr (requires { args.static_scale; })
        stored = args.static_scale;
      else
        stored = args.static_second_scale;
      float largest = 0.0f;
      for (int i = int(threadIdx.x); i < Config::kScales; i += Config::kThreads)
        largest = fmaxf(largest, stored[i]);
      outer = Scaling::outer(
          groupMaximum<Config::kThreads, Config::kThreads>(largest));
    }
    E::groups(args, rows, block, outer);
  }
}

/// Quantizes the rows of CTA `block`, out of `rows` rows, with or without
/// emulation. `Scaling`: any except those that need the maximum of all rows.
template <class Config>
__device__ __forceinline__ void
quantizeOrEmulateRows(const typename Config::Args &args, int rows, int block) {
  if constexpr (quant::isEmulated<typename Config::Scaling>)
    emulateRows<Config>(args, rows, block);
  else
    quantizeRows<Config>(args, rows, block);
}

} // namespace moe::detail
