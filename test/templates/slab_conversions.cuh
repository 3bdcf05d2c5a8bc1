//===- slab_conversions.cuh - all codes by many scales ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A converter of slabs (quant/slab_codes.cuh) turns every code into operands,
// by many pairs of scales. It runs on the host or on a GPU. A pair is a number
// of 16 bits.
//
//===----------------------------------------------------------------------===//

#pragma once

// It includes the converters as kernels do.
#include "templates/moe/matmul/loop/multistage_slabs.cuh"

namespace moe::conversions {

inline constexpr int kPairs = 65536;

template <class InputType, class WeightType, class ScaleType, bool kZeros>
struct Config {
  using Input = InputType;
  using Weight = WeightType;
  using Scale = ScaleType;
  static constexpr bool kZeroPoint = kZeros;
};

/// The numbers of a thread's two rows.
struct Rows {
  unsigned zeros[2];
};

/// The bits of row i's scale. Pairs hold all pairs of scales of 8 bits, and all
/// scales of 16 bits in each row. Of 32 bits they hold the upper 16.
__device__ __forceinline__ unsigned scaleBits(int bits, int pair, int i) {
  unsigned number = unsigned(pair);
  if (bits == 8)
    return number >> 8 * i & 0xffu;
  if (i == 1)
    number = (number * 40503u + 12345u) & 0xffffu;
  return bits == 16 ? number : number << 16 | (number * 40503u & 0xffffu);
}

/// Steps of a thread for a pair: each register meets all codes of 4 bits, and
/// each row all codes of 6 and 8 bits.
__device__ __forceinline__ int stepsOf(int bits) {
  return bits == 4 ? 16 : bits == 6 ? 32 : 64;
}
/// A code of a step: the first or second one of register `part`.
__device__ __forceinline__ unsigned codeOf(int bits, int pair, int step,
                                           int part, int second) {
  if (bits == 4)
    return unsigned(step + 5 * part + 3 * second) & 15u;
  if (bits == 6)
    return unsigned(2 * step + second + part / 2 * 37 + pair) & 63u;
  return unsigned(4 * step + ((part / 2 * 2 + second + pair) & 3));
}

/// The words of a pair: 1 if a scale is large, plus 2 if the converter tells
/// these apart; what the sums of the two
/// rows are multiplied by, as floats; then the registers of each step, as small
/// and as large.
__device__ __forceinline__ int wordsOf(int bits) {
  return 3 + 8 * stepsOf(bits);
}

template <class Scale> __device__ __forceinline__ Scale scaleOf(unsigned bits) {
  if constexpr (moe::kSame<Scale, float>)
    return __uint_as_float(bits);
  else
    return Scale{decltype(Scale::bits)(bits)};
}

template <int kWords>
__device__ __forceinline__ void orBits(unsigned (&words)[kWords], int bit,
                                       unsigned code) {
  words[bit / 32] |= code << bit % 32;
  if (bit % 32 > 26)
    words[bit / 32 + 1] |= code >> (32 - bit % 32);
}

/// first: 4 for the second of two steps that share words.
template <bool kLarge, class Converter, int kWords>
__device__ __forceinline__ unsigned elementOf(const Converter &converter,
                                              const unsigned (&words)[kWords],
                                              int first, int part) {
  return converter.template element<kLarge>(words, first + part);
}

template <class Config>
__device__ __forceinline__ void convert(int pair, const Rows &rows,
                                        unsigned *to) {
  using Scale = typename Config::Scale;
  using Converter = decltype(moe::detail::slabConverterOf<Config>());
  constexpr int kBits = moe::kBits<typename Config::Weight>;
  constexpr int kScaleBits = 8 * int(sizeof(Scale));
  const Scale scales[2] = {scaleOf<Scale>(scaleBits(kScaleBits, pair, 0)),
                           scaleOf<Scale>(scaleBits(kScaleBits, pair, 1))};
  Converter converter;
  converter.prepare(scales, rows.zeros);
  bool isLarge = false;
  if constexpr (Converter::kBranchesOnLarge)
    isLarge = converter.isLarge;
  *to++ = unsigned(isLarge) + 2 * Converter::kBranchesOnLarge;
  for (int row = 0; row < 2; ++row)
    *to++ = __float_as_uint(Converter::ofRow(row));
  for (int step = 0; step < stepsOf(kBits); ++step) {
    // Codes of 6 bits stand in the first or the second step of their words.
    unsigned words[moe::Slabs<kBits>::kStepWords] = {};
    const int first = kBits == 6 ? step % 2 * 4 : 0;
    for (int part = 0; part < 4; ++part)
      for (int second = 0; second < 2; ++second) {
        const unsigned code = codeOf(kBits, pair, step, part, second);
        if (kBits == 6)
          orBits(words, (first * 2 + part + 4 * second) * 6, code);
        else if (kBits == 4)
          words[0] |= code << 4 * (part + 4 * second);
        else
          words[part / 2 % (kBits / 4)] |= code << 8 * (part % 2 + 2 * second);
      }
    for (int part = 0; part < 4; ++part)
      *to++ = elementOf<false>(converter, words, first, part);
    for (int part = 0; part < 4; ++part)
      *to++ = Converter::kBranchesOnLarge
                  ? elementOf<true>(converter, words, first, part)
                  : 0;
  }
}

} // namespace moe::conversions
