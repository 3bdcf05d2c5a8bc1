//===- ElementTest.cpp - conversions of the host device -------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Exhaustive over the 16-bit types: to float and back is the identity, and the
// midpoint of two neighbours goes to the even one.
//
//===----------------------------------------------------------------------===//

#include "runtime/host/Element.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace moec::host;

TEST(Element, everyBf16SurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    float value = fromBf16(static_cast<uint16_t>(bits));
    if (std::isnan(value))
      EXPECT_TRUE(std::isnan(fromBf16(toBf16(value))));
    else
      ASSERT_EQ(toBf16(value), bits);
  }
}

TEST(Element, everyF16SurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    float value = fromF16(static_cast<uint16_t>(bits));
    if (std::isnan(value))
      EXPECT_TRUE(std::isnan(fromF16(toF16(value))));
    else
      ASSERT_EQ(toF16(value), bits) << value;
  }
}

TEST(Element, midpointsGoToTheEvenNeighbour) {
  for (uint16_t bits = 0; bits < 0x7bff; ++bits) {
    double low = fromF16(bits), high = fromF16(bits + 1);
    float middle = static_cast<float>((low + high) / 2);
    ASSERT_EQ(toF16(middle), bits % 2 ? bits + 1 : bits) << middle;
    ASSERT_EQ(toF16(std::nextafter(middle, 0.0f)), bits) << middle;
    ASSERT_EQ(toF16(std::nextafter(middle, INFINITY)), bits + 1) << middle;
  }
  for (uint16_t bits = 0; bits < 0x7f7f; ++bits) {
    double low = fromBf16(bits), high = fromBf16(bits + 1);
    float middle = static_cast<float>((low + high) / 2);
    ASSERT_EQ(toBf16(middle), bits % 2 ? bits + 1 : bits) << middle;
  }
}

TEST(Element, largeValuesBecomeInfinite) {
  EXPECT_EQ(toF16(65519.0f), 0x7bff);
  EXPECT_EQ(toF16(65520.0f), 0x7c00);
  EXPECT_EQ(toF16(-1e30f), 0xfc00);
  EXPECT_EQ(toF16(INFINITY), 0x7c00);
  EXPECT_EQ(toBf16(3.4e38f), 0x7f80);
  EXPECT_EQ(toBf16(-INFINITY), 0xff80);
}
