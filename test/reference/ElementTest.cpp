//===- ElementTest.cpp - the reference's element types --------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Known bit patterns, every 16-bit pattern there and back, and ties.
//
//===----------------------------------------------------------------------===//

#include "test/reference/Element.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

using namespace moec::reference;

namespace {

uint16_t bits16(const char *name, double value) {
  uint16_t bits = 0;
  store(*findElement(name), &bits, 0, value);
  return bits;
}

TEST(Element, KnownPatterns) {
  EXPECT_EQ(bits16("bf16", 1.0), 0x3F80);
  EXPECT_EQ(bits16("bf16", -2.5), 0xC020);
  EXPECT_EQ(bits16("f16", 1.0), 0x3C00);
  EXPECT_EQ(bits16("f16", 65504), 0x7BFF);
  EXPECT_EQ(bits16("f16", 65519.99), 0x7BFF);
  EXPECT_EQ(bits16("f16", 65520), 0x7C00) << "the tie goes to infinity";
  EXPECT_EQ(bits16("f16", -1e30), 0xFC00);
  EXPECT_EQ(bits16("f16", std::ldexp(1.0, -24)), 0x0001);
  EXPECT_EQ(bits16("f16", std::ldexp(1.0, -25)), 0x0000) << "tie to even";
  EXPECT_EQ(bits16("f16", -0.0), 0x8000);
}

TEST(Element, TiesToEven) {
  // bf16 has 7 bits behind the point: 1 + 2^-8 is half way.
  EXPECT_EQ(roundTo(*findElement("bf16"), 1 + 0x1p-8), 1.0);
  EXPECT_EQ(roundTo(*findElement("bf16"), 1 + 3 * 0x1p-8), 1 + 0x1p-6);
  EXPECT_EQ(roundTo(*findElement("bf16"), 1 + 0x1.00001p-8), 1 + 0x1p-7);
  EXPECT_EQ(roundTo(*findElement("f16"), 2049.0), 2048.0);
  EXPECT_EQ(roundTo(*findElement("f16"), 2051.0), 2052.0);
  EXPECT_EQ(bits16("bf16", 1 + 3 * 0x1p-8), 0x3F82);
  EXPECT_EQ(bits16("bf16", 2 - 0x1p-8), 0x4000) << "carries into the exponent";
}

TEST(Element, EveryPatternRoundTrips) {
  for (const char *name : {"f16", "bf16"}) {
    const Element &element = *findElement(name);
    for (uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
      const auto bits = uint16_t(pattern);
      const double value = load(element, &bits, 0);
      double many;
      loadMany(element, &bits, 1, &many);
      uint16_t back = 0;
      store(element, &back, 0, value);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(many));
        EXPECT_TRUE(std::isnan(load(element, &back, 0)));
        continue;
      }
      ASSERT_EQ(back, bits) << name << " " << pattern;
      ASSERT_EQ(many, value);
      ASSERT_EQ(roundTo(element, value), value);
    }
  }
}

TEST(Element, BetweenTwoNumbersTheNearerOne) {
  for (const char *name : {"f16", "bf16", "f8E4M3FN", "f8E5M2", "f6E3M2FN",
                           "f6E2M3FN", "f4E2M1FN"}) {
    const Element &element = *findElement(name);
    for (uint32_t code = 0; code + 1 < 1U << (element.bits() - 1); ++code) {
      const uint32_t next = code + 1;
      const double low = load(element, &code, 0);
      const double high = load(element, &next, 0);
      if (!std::isfinite(low) || !std::isfinite(high))
        break;
      const double middle = (low + high) / 2;
      for (const double sign : {1.0, -1.0}) {
        ASSERT_EQ(roundTo(element, sign * middle),
                  sign * (code % 2 ? high : low))
            << name << " " << code;
        ASSERT_EQ(roundTo(element, sign * std::nextafter(middle, low)),
                  sign * low)
            << name << " " << code;
        ASSERT_EQ(roundTo(element, sign * std::nextafter(middle, high)),
                  sign * high)
            << name << " " << code;
      }
    }
  }
}

TEST(Element, F32IsTheMachinesFloat) {
  const Element &f32 = *findElement("f32");
  for (double value : {0.1, -3.3e-20, 1e-42, 3.4028236e38, 1e39, 7.0}) {
    float stored;
    store(f32, &stored, 0, value);
    EXPECT_EQ(stored, float(value));
    EXPECT_EQ(roundTo(f32, value), double(float(value)));
  }
}

TEST(Element, Integers) {
  int64_t wide = 0;
  store(*findElement("i64"), &wide, 0, -1);
  EXPECT_EQ(wide, -1);
  const int32_t narrow[] = {5, -7};
  EXPECT_EQ(load(*findElement("i32"), narrow, 1), -7);
  EXPECT_EQ(findElement("i16"), nullptr);
}

} // namespace
