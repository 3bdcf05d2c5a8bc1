//===- dequantize.cuh - codes of weights to operands ------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Dequantization of weights: value = (code - zero point) * scale, in f32,
// rounded once to the element type of the engine. Second scales multiply the
// accumulators. A thread converts the chunks of 8 codes (quantized values) that
// it copied itself, so it waits only for its own copies. Scales of the next
// stage are loaded while the current one is multiplied.
//
// If scales multiply accumulators (moe/quant/code_groups.cuh), a code minus 8
// becomes an element of 8 bits without scaling, 16 codes at a time, and
// moe/matmul/feed/scales.cuh applies the scales.
//
// A Config whose Quant has kDequantizes also has:
//
//   Scale          element type of rhs_scale
//   kScaleRows     weight rows that share a scale, or 0 for all of them; gate
//                  and up rows have separate scales
//   kScaleColumns  elements along k that share a scale, or 0 for all of them
//   kZeroPoint     true if each scale has a zero point
//   kSecondScale   true if scales have a second scale
//   kSecondPerRow  true if each weight row has one
//
// Args:
//   rhs_scale         Scale [experts, rows of scales, groups along k]
//   rhs_second_scale  float [experts, 2 for gate and up as stored, else 1], or
//                     [experts, kN] if kSecondPerRow [if kSecondScale]
//   rhs_zero_point    moe::i8, shape of rhs_scale [if kZeroPoint]
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

/// True if the weights' scales multiply accumulators, not codes.
template <class Config>
inline constexpr bool scalesSums =
    Config::Quant::kRhsScale == quant::RhsScale::Groups ||
    Config::Quant::kRhsScale == quant::RhsScale::Channel;

/// Number of codes that are copied and converted at a time. As elements of the
/// engine's type they occupy 16 bytes.
template <class Input> inline constexpr int kCodesOfChunk = kPerVector<Input>;
/// Bytes of such a chunk of codes, and its stride in shared memory.
template <class Weight, class Input>
inline constexpr int kCodeBytes = kCodesOfChunk<Input> * kBits<Weight> / 8;
template <class Weight, class Input>
inline constexpr int kCodePitch = kCodeBytes<Weight, Input> == 4 ? 4 : 8;

template <class Config> constexpr bool checkDequantization() {
  MOE_REQUIRE_TYPE(Config, Scale, "element type of the weights' scales");
  MOE_REQUIRE_VALUE(Config, kScaleRows,
                    "weight rows that share a scale, or kWholeExtent");
  MOE_REQUIRE_VALUE(Config, kScaleColumns,
                    "elements of k that share one, or kWholeExtent");
  MOE_REQUIRE_VALUE(Config, kZeroPoint, "true if there are zero points");
  MOE_REQUIRE_VALUE(Config, kSecondScale, "true if scales have second scales");
  MOE_REQUIRE_VALUE(Config, kSecondPerRow,
                    "true if each row has a second scale");
  using Input = typename Config::Input;
  static_assert(sizeof(Input) == 2 ||
                    (scalesSums<Config> && kSame<typename Config::Weight, i4> &&
                     !Config::kZeroPoint &&
                     (!Config::kSecondScale || Config::kSecondPerRow)),
                "codes become elements of 16 bits, those of 4 bits without "
                "zero points also of 8");
  static_assert(Config::kScaleColumns == kWholeExtent ||
                    Config::kScaleColumns % kCodesOfChunk<Input> == 0,
                "a chunk of codes must lie in one group along k");
  static_assert(Config::kK % kCodesOfChunk<Input> == 0,
                "weight rows must be whole chunks of codes");
  return true;
}

/// The converter of one thread's codes. `kPasses`: chunks of the thread, which
/// are kRowsPerPass weight rows apart.
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
  int index[kPasses];      ///< each row's first scale, relative to the expert's
  long long expertsScales; ///< index of the expert's first scale
  int firstK;              ///< first column of this thread's chunk in a k tile
  float scale[kPasses], zero[kPasses];

  /// Computes the scale indices. `firstRow`: weight row of pass 0 in the
  /// expert.
  __device__ __forceinline__ Dequantizer(const typename Config::Args &args,
                                         int expert, int firstRow, int chunk)
      : args(args),
        expertsScales((long long)expert * (kParts * kPartScales * kGroups)),
        firstK(chunk * kCodesOfChunk<Input>) {
#pragma unroll
    for (int i = 0; i < kPasses; ++i) {
      // Rows that do not exist use the scales of one that does.
      int row = minimum(firstRow + i * kRowsPerPass, Config::kN - 1);
      GateUpRow place{false, row};
      if constexpr (kParts == 2)
        place = gateUpRow<Config::kInterleave>(row);
      int part = kParts == 2 && place.up != ScaleLayout<Config>::kUpFirst;
      // If each row has a scale, its index is that of the stored row.
      index[i] =
          kGroupRows == 1
              ? storedRow<Config>(row) * kGroups
              : (part * kPartScales + place.index / kGroupRows) * kGroups;
    }
  }

  /// Loads the scales and zero points for the chunks of a k tile.
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

  /// Converts chunk i. `codes`, `to`: shared-memory addresses of source and
  /// result.
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

/// Multiplies the accumulators of a worker by the second scales of dequantized
/// weights. `firstN`: first weight row of the worker's tile.
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

/// The dequantizer of a Config that multiplies weights without conversion.
struct NoDequantizer {};

} // namespace moe
