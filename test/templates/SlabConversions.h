//===- SlabConversions.h - what slabs' conversions must yield ---*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The check of the operands that codes, scales and zero points become, bit for
// bit: (code - zero point) * scale in f32, rounded once. The host and a GPU
// share it.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_TEMPLATES_SLABCONVERSIONS_H
#define MOEC_TEST_TEMPLATES_SLABCONVERSIONS_H

#include "test/templates/DeviceFunctions.h"

#include "test/templates/slab_conversions.cuh"

#include "runtime/host/Element.h"
#include "test/reference/FirstHalf.h"

#include <bit>
#include <cmath>
#include <functional>
#include <gtest/gtest.h>
#include <string>
#include <vector>

/// Input, weight and scale of moe::, whether there are zero points.
#define MOEC_SLAB_CONVERSIONS(CASE)                                            \
  CASE(bf16, i4, bf16, false)                                                  \
  CASE(bf16, i4, bf16, true)                                                   \
  CASE(f16, i4, f16, false)                                                    \
  CASE(f16, i4, f16, true)                                                     \
  CASE(bf16, e2m1, ue8m0, false)                                               \
  CASE(f16, e2m1, ue8m0, false)                                                \
  CASE(bf16, e2m1, e4m3, false)                                                \
  CASE(f16, e2m1, e4m3, false)                                                 \
  CASE(bf16, e4m3, f32, false)                                                 \
  CASE(f16, e4m3, f32, false)                                                  \
  CASE(bf16, e4m3, bf16, false)                                                \
  CASE(f16, e4m3, f16, false)                                                  \
  CASE(bf16, e5m2, f32, false)                                                 \
  CASE(f16, e5m2, f16, false)                                                  \
  CASE(bf16, e5m2, ue8m0, false)                                               \
  CASE(bf16, e3m2, ue8m0, false)                                               \
  CASE(f16, e3m2, ue8m0, false)                                                \
  CASE(bf16, e2m3, ue8m0, false)                                               \
  CASE(f16, e2m3, ue8m0, false)                                                \
  CASE(bf16, i8, bf16, false)                                                  \
  CASE(f16, i8, f16, false)                                                    \
  CASE(bf16, i8, f32, false)                                                   \
  CASE(bf16, i8, bf16, true)                                                   \
  CASE(f16, i8, f16, true)

namespace moe::conversions {

struct Case {
  std::string input, weight, scale;
  bool zeroPoint;
  int weightBits() const {
    return weight == "i4" || weight == "e2m1"     ? 4
           : weight == "e3m2" || weight == "e2m3" ? 6
                                                  : 8;
  }
  int scaleBits() const {
    return scale == "f32" ? 32 : scale == "e4m3" || scale == "ue8m0" ? 8 : 16;
  }
};

inline float numberOf(const std::string &type, unsigned bits) {
  if (type == "i4")
    return float(bits);
  if (type == "f32")
    return std::bit_cast<float>(bits);
  const char *name = type == "e4m3"    ? "f8E4M3FN"
                     : type == "e5m2"  ? "f8E5M2"
                     : type == "e2m1"  ? "f4E2M1FN"
                     : type == "e3m2"  ? "f6E3M2FN"
                     : type == "e2m3"  ? "f6E2M3FN"
                     : type == "ue8m0" ? "f8E8M0FNU"
                                       : type.c_str();
  return float(
      moec::reference::load(*moec::reference::findElement(name), &bits, 0));
}

/// The numbers of rows that a case is tried with.
inline std::vector<Rows> rowsOf(const Case &of) {
  std::vector<Rows> all;
  if (of.zeroPoint && of.weight == "i4") {
    for (unsigned zero = 0; zero < 16; ++zero)
      all.push_back({{zero, (zero + 7) & 15u}});
    for (unsigned zero : {0x80u, 0xfdu, 0xffu, 0x10u, 0x7fu})
      all.push_back({{zero, (zero + 9) & 0xffu}});
  } else if (of.zeroPoint) {
    for (unsigned zero : {0x80u, 0xffu, 0x7fu})
      all.push_back({{zero, (zero + 9) & 0xffu}});
  } else {
    all.push_back({{0, 0}});
  }
  return all;
}

/// Whether bf16 `got` times ofRow is `wanted`, as SlabBfloats says: exactly
/// for scales of 0 and from 2^-89 to 2^31, within 2^-95 below, and not finite
/// above.
inline bool isScaled(unsigned got, float ofRow, unsigned wanted, float scale) {
  const double number = double(std::bit_cast<float>(got << 16)) * ofRow;
  const double exact = std::bit_cast<float>(wanted << 16);
  const float size = std::fabs(scale);
  if (!(size < 0x1p31f))
    return size < 0x1p32f && number == exact ? true : !std::isfinite(number);
  if (size >= 0x1p-89f || size == 0)
    return number == exact;
  return std::fabs(number - exact) <= 0x1p-95;
}

/// Pairs that are converted at a time.
inline constexpr int kAtOnce = 4096;

/// Converts kAtOnce pairs from the first one on.
using Convert = std::function<void(int first, const Rows &, unsigned *to)>;

inline void check(const Case &of, const Convert &convert) {
  const int bits = of.weightBits();
  const bool isBf16 = of.input == "bf16";
  const unsigned infinity = isBf16 ? 0x7f80u : 0x7c00u;
  std::vector<float> codes;
  for (unsigned code = 0; code < 1u << bits; ++code)
    codes.push_back(numberOf(of.weight, code));
  std::vector<unsigned> words(size_t(kAtOnce) * size_t(wordsOf(bits)));
  std::vector<unsigned> expected[2] = {std::vector<unsigned>(codes.size()),
                                       std::vector<unsigned>(codes.size())};
  int asSmall = 0, wrong = 0;
  for (const Rows &rows : rowsOf(of))
    for (int pair = 0; pair < kPairs; ++pair) {
      if (pair % kAtOnce == 0)
        convert(pair, rows, words.data());
      const unsigned *word =
          &words[size_t(pair % kAtOnce) * size_t(wordsOf(bits))];
      const unsigned kind = *word++;
      float scales[2];
      for (int i = 0; i < 2; ++i) {
        scales[i] = numberOf(of.scale, scaleBits(of.scaleBits(), pair, i));
        float zero = of.weight == "i4" ? 8.0f : 0.0f;
        if (of.zeroPoint)
          zero = float(static_cast<signed char>(rows.zeros[i]));
        for (size_t code = 0; code < codes.size(); ++code) {
          const float value = (codes[code] - zero) * scales[i];
          expected[i][code] =
              isBf16 ? moec::host::toBf16(value) : moec::host::toF16(value);
        }
      }
      const float ofRow[2] = {std::bit_cast<float>(word[0]),
                              std::bit_cast<float>(word[1])};
      word += 2;
      asSmall += (kind & 1) == 0;
      for (int step = 0; step < stepsOf(bits); ++step)
        for (int path = 0; path < 2; ++path)
          for (int part = 0; part < 4; ++part, ++word) {
            if (path == 0 ? kind & 1 : !(kind & 2))
              continue;
            for (int second = 0; second < 2; ++second) {
              const unsigned code = codeOf(bits, pair, step, part, second);
              const unsigned got = *word >> 16 * second & 0xffffu;
              const unsigned wanted = expected[part % 2][code];
              const bool isNan = (wanted & 0x7fffu) > infinity;
              if (ofRow[0] == 1
                      ? isNan ? (got & 0x7fffu) > infinity : got == wanted
                      : isScaled(got, ofRow[part % 2], wanted,
                                 scales[part % 2]))
                continue;
              if (++wrong <= 20)
                ADD_FAILURE()
                    << of.weight << " to " << of.input << ", code " << code
                    << ", scale (" << of.scale << ") " << scales[part % 2]
                    << ", zero point " << rows.zeros[part % 2] << ", register "
                    << part << (path ? ", as large: " : ": ") << std::hex << got
                    << ", expected " << wanted;
            }
          }
    }
  EXPECT_EQ(wrong, 0) << of.weight << " " << of.scale << " to " << of.input;
  EXPECT_GT(asSmall, 0);
}

} // namespace moe::conversions

#endif // MOEC_TEST_TEMPLATES_SLABCONVERSIONS_H
