//===- dequantize.cuh - codes of weights to operands ------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Dequantization of weights that an engine reads in row order, not in slabs
// (moe/quant/slab_codes.cuh uses the same members of a Config for slabs). The
// weight is (code - zero point) * scale, computed in f32 and rounded once to
// the engine's element type; a code is a quantized value. Second scales (scales
// of the scales) multiply the accumulators.
//
// Each thread converts the chunks of 8 codes that it copied to shared memory
// itself, so it waits only for its own copies. Scales of the next pipeline
// stage are loaded while the current stage is multiplied.
//
// In the schemes of moe/quant/code_groups.cuh, scales multiply accumulators. A
// chunk is then 16 codes of 4 bits. Each code (of i4, minus 8) becomes an 8-bit
// element without a scale, and moe/matmul/feed/scales.cuh applies the scales.
//
// A Config whose Quant has kDequantizes also has:
//
//   Scale          element type of rhs_scale
//   kScaleRows     number of weight rows that share a scale, or kWholeExtent
//                  (moe/core/types.cuh) for all gate rows, all up rows, or all
//                  rows
//   kScaleColumns  number of elements along k that share a scale, or
//                  kWholeExtent for all of k
//   kZeroPoint     true if each scale has a zero point
//   kSecondScale   true if scales have a second scale
//   kSecondPerRow  true if each weight row has its own second scale
//
// Args:
//   rhs_scale         Scale [experts, scale rows, groups along k]. `scale rows`
//                     is ceildiv(kN, kScaleRows), or 1 with kWholeExtent. If
//                     gates and ups are interleaved, they have separate scales,
//                     so `scale rows` is twice the value for kN / 2 rows.
//   rhs_second_scale  float [experts, 2] with gate and up, else [experts, 1];
//                     [experts, kN] if kSecondPerRow [if kSecondScale]
//   rhs_zero_point    moe::i8, shape of rhs_scale [if kZeroPoint]
//
// Gates and ups, or rows, are in the checkpoint's order (moe/core/gate_up.cuh).
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/concepts.cuh"
#include "moe/core/ptx.cuh"
#include "moe/math/codes.cuh"
#include "moe/matmul/feed/scales.cuh"

namespace moe {

/// True if weights are codes that are converted to the engine's element type.
template <class Config>
inline constexpr bool dequantizes =
    requires { requires Config::Quant::kDequantizes; };

/// True if the weights' scales multiply the accumulators instead of the codes.
template <class Config>
inline constexpr bool scalesSums =
    Config::Quant::kRhsScale == quant::RhsScale::Groups ||
    Config::Quant::kRhsScale == quant::RhsScale::Channel;

/// Number of codes that a thread copies and converts at a time (a chunk). After
/// the conversion to the engine's element type, a chunk has 16 bytes.
template <class Input> inline constexpr int kCodesOfChunk = kPerVector<Input>;
/// Bytes of a chunk of codes, and the byte stride between chunks in shared
/// memory.
template <class Weight, class Input>
inline constexpr int kCodeBytes = kCodesOfChunk<Input> * kBits<Weight> / 8;
template <class Weight, class Input>
inline constexpr int kCodePitch = kCodeBytes<Weight, Input> == 4 ? 4 : 8;

template <class Config> constexpr bool checkDequantization() {
  MOE_REQUIRE_TYPE(Config, Scale, "element type of the weights' scales");
  MOE_REQUIRE_VALUE(Config, kScaleRows,
                    "weight rows that share a scale, or kWholeExtent");
  MOE_REQUIRE_VALUE(Config, kScaleColumns,
                    "elements of k that share a scale, or kWholeExtent");
  MOE_REQUIRE_VALUE(Config, kZeroPoint, "true if there are zero points");
  MOE_REQUIRE_VALUE(Config, kSecondScale, "true if scales have second scales");
  MOE_REQUIRE_VALUE(Config, kSecondPerRow,
                    "true if each row has a second scale");
  using Input = typename Config::Input;
  static_assert(sizeof(Input) == 2 ||
                    (scalesSums<Config> && kSame<typename Config::Weight, i4> &&
                     !Config::kZeroPoint &&
                     (!Config::kSecondScale || Config::kSecondPerRow)),
                "codes are converted to 16-bit elements; i4 codes without zero "
                "points also to 8-bit elements");
  static_assert(Config::kScaleColumns == kWholeExtent ||
                    Config::kScaleColumns % kCodesOfChunk<Input> == 0,
                "a chunk of codes must lie in one group along k");
  static_assert(Config::kK % kCodesOfChunk<Input> == 0,
                "weight rows must be whole chunks of codes");
  return true;
}

/// Converts the chunks of one thread. The thread has kPasses chunks at the same
/// position along k, in weight rows that are kRowsPerPass apart.
template <class Config, int kPasses, int kRowsPerPass> struct Dequantizer {
  using Weight = typename Config::Weight;
  using Input = typename Config::Input;
  static_assert(checkDequantization<Config>());

  static constexpr int kParts = Config::kInterleave != 0 ? 2 : 1;
  static constexpr int kPartRows = Config::kN / kParts;
  static constexpr int kGroupRows =
      Config::kScaleRows == kWholeExtent ? kPartRows : Config::kScaleRows;
  static constexpr int kPartScales = ceilDiv(kPartRows, kGroupRows);
  static constexpr int kGroupColumns = Config::kScaleColumns == kWholeExtent
                                           ? Config::kK
                                           : Config::kScaleColumns;
  static constexpr int kGroups = ceilDiv(Config::kK, kGroupColumns);

  const typename Config::Args &args;
  int index[kPasses];      ///< index of each row's first scale in the expert
  long long expertsScales; ///< index of the expert's first scale
  int firstK;              ///< first column of this thread's chunk in a k tile
  float scale[kPasses], zero[kPasses];

  /// Computes the scale indices of the thread's rows. `firstRow`: the expert's
  /// weight row of pass 0. `chunk`: index of the chunk along k in a k tile.
  __device__ __forceinline__ Dequantizer(const typename Config::Args &args,
                                         int expert, int firstRow, int chunk)
      : args(args),
        expertsScales((long long)expert * (kParts * kPartScales * kGroups)),
        firstK(chunk * kCodesOfChunk<Input>) {
#pragma unroll
    for (int i = 0; i < kPasses; ++i) {
      // Rows past the end read the scales of the last row.
      int row = minimum(firstRow + i * kRowsPerPass, Config::kN - 1);
      GateUpRow place{false, row};
      if constexpr (kParts == 2)
        place = gateUpRow<Config::kInterleave>(row);
      int part = kParts == 2 && place.up != ScaleLayout<Config>::kUpFirst;
      // With one scale per row, scales are in the checkpoint's row order.
      index[i] =
          kGroupRows == 1
              ? storedRow<Config>(row) * kGroups
              : (part * kPartScales + place.index / kGroupRows) * kGroups;
    }
  }

  /// Loads the scales and zero points of the thread's chunks in k tile `tile`.
  __device__ __forceinline__ void fetch(int tile) {
    if constexpr (scalesSums<Config>)
      return;
    int k = minimum(tile * Config::Schedule::kTileK + firstK, Config::kK - 1);
#pragma unroll
    for (int i = 0; i < kPasses; ++i) {
      long long at = expertsScales + (index[i] + k / kGroupColumns);
      scale[i] = toFloat(args.rhs_scale[at]);
      if constexpr (Config::kZeroPoint)
        zero[i] = float(args.rhs_zero_point[at].bits);
      else
        zero[i] = kZero<Weight>;
    }
  }

  /// Converts the chunk of pass `i`. `codes`, `to`: shared-memory addresses of
  /// the codes and of the result.
  __device__ __forceinline__ void convert(int i, unsigned codes,
                                          unsigned to) const {
    unsigned words[2] = {};
    ptx::loadShared<kCodePitch<Weight, Input>>(codes, words);
    Vector16 vector;
    if constexpr (scalesSums<Config>) {
#pragma unroll
      for (int k = 0; k < 4; ++k)
        vector.words[k] = bytesOf4<Input>(words[k / 2] >> k % 2 * 16 & 0xffffu);
    } else {
#pragma unroll
      for (int pair = 0; pair < 4; ++pair) {
        float values[2];
#pragma unroll
        for (int j = 0; j < 2; ++j)
          values[j] =
              (decode8th<Weight>(words, 2 * pair + j) - zero[i]) * scale[i];
        vector.words[pair] = packPair<Input>(values[0], values[1]);
      }
    }
    ptx::storeShared(to, vector.words);
  }
};

/// Multiplies a worker's accumulators by the weights' second scales. `firstN`:
/// first weight row of the worker's tile.
template <class Config, class Worker>
__device__ __forceinline__ void
multiplyBySecond(Worker &worker, const typename Config::Args &args, int expert,
                 int firstN) {
  constexpr int kParts = Config::kInterleave != 0 ? 2 : 1;
  constexpr int kSeconds = Config::kSecondPerRow ? Config::kN : kParts;
  const float *ofExpert = args.rhs_second_scale + (long long)expert * kSeconds;
#pragma unroll
  for (int i = 0; i < Worker::kSize; ++i) {
    const int n = minimum(firstN + worker.col(i), Config::kN - 1);
    int at = 0;
    if constexpr (Config::kSecondPerRow)
      at = storedRow<Config>(n);
    else if constexpr (kParts == 2)
      at =
          gateUpRow<Config::kInterleave>(n).up != ScaleLayout<Config>::kUpFirst;
    worker.scale(i, ofExpert[at]);
  }
}

/// Placeholder for the dequantizer of a Config whose weights need no
/// conversion.
struct NoDequantizer {};

} // namespace moe
