//===- QuotientTest.cpp - three instructions divide as IEEE says ----------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The templates' Divisor, compiled for the host, against the host's division:
// random scales and values, scales with few and with all mantissa bits, and
// scales and values at the ends of their ranges.
//
//===----------------------------------------------------------------------===//

#include "templates/moe/math/host.h"

#include "templates/moe/math/scaling.cuh"

#include <bit>
#include <cmath>
#include <gtest/gtest.h>
#include <random>

using moe::quant::Divisor;

static void expectQuotient(float value, float scale) {
  const float expected = value / scale;
  const float got = Divisor(scale).quotient(value);
  if (std::isnan(expected)) {
    ASSERT_TRUE(std::isnan(got)) << value << " / " << scale;
    return;
  }
  // Codes of e4m3 begin at 2^-10.
  if (std::fabs(expected) < 0x1p-60f) {
    ASSERT_LT(std::fabs(got), 0x1p-59f) << value << " / " << scale;
    return;
  }
  ASSERT_EQ(std::bit_cast<unsigned>(got), std::bit_cast<unsigned>(expected))
      << value << " / " << scale;
}

/// A number with these mantissa bits and this power of two.
static float numberOf(unsigned mantissa, int power) {
  return std::ldexp(std::bit_cast<float>(0x3f800000u | (mantissa & 0x7fffffu)),
                    power);
}

TEST(Quotient, RandomScalesAndValues) {
  std::mt19937 random(1);
  std::uniform_int_distribution<int> scalePower(-42, 119), below(-60, 8);
  for (int i = 0; i < 4000000; ++i) {
    const int power = scalePower(random);
    const float scale = numberOf(static_cast<unsigned>(random()), power);
    float value =
        numberOf(static_cast<unsigned>(random()), power + below(random));
    if (random() % 2 == 0)
      value = -value;
    ASSERT_NO_FATAL_FAILURE(expectQuotient(value, scale));
  }
}

/// A rounded reciprocal is furthest off where the mantissa is near its ends.
TEST(Quotient, MantissasNearTheirEnds) {
  std::mt19937 random(2);
  for (int low = 0; low < 256; ++low)
    for (const int mantissa : {low, 0x7fffff - low})
      for (int i = 0; i < 2000; ++i) {
        const float scale = numberOf(static_cast<unsigned>(mantissa), -20);
        const float value =
            numberOf(static_cast<unsigned>(random()),
                     -20 + static_cast<int>(random() % 20) - 11);
        ASSERT_NO_FATAL_FAILURE(expectQuotient(value, scale));
      }
}

TEST(Quotient, EndsOfTheirRanges) {
  const float least = 1e-10f / 448.0f, most = 0x1p119f;
  for (const float scale : {least, 1.0f, most, INFINITY})
    for (const float value : {0.0f, -0.0f, 1.0f, -448.0f * scale, NAN,
                              448.0f * scale, 0x1p-149f, INFINITY}) {
      // A value is at most 448 times its scale.
      if (std::fabs(value) <= 448.0f * scale || std::isnan(value)) {
        ASSERT_NO_FATAL_FAILURE(expectQuotient(value, scale));
      }
    }
}
