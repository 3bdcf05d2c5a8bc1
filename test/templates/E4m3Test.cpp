//===- E4m3Test.cpp - all conversions of e4m3 agree -----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The templates' integer conversions, compiled for the host, the host device's
// and the reference's: every code, and every half and bfloat16 as a value. And
// the neighbourhood of each point where rounding changes, in f32.
//
//===----------------------------------------------------------------------===//

#include "runtime/host/Element.h"
#include "templates/moe/math/host.h"
#include "test/reference/Element.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

using namespace moec;

static float halfOf(unsigned bits) {
  return host::fromF16(static_cast<uint16_t>(bits & 0xffff));
}

/// As halvesFromE4m3 combines the two, for the first of a pair.
static float templateDecode(unsigned code) {
  unsigned scaled = moe::detail::scaledHalves(code);
  unsigned nan = moe::detail::halvesNan(scaled);
  return nan & 0xffff ? NAN : halfOf(scaled) * 256.0f;
}

static void expectEncodings(float value) {
  const auto &element = *reference::findElement("f8E4M3FN");
  uint8_t expected = 0;
  reference::store(element, &expected, 0, value);
  ASSERT_EQ(host::toE4m3(value), expected) << value;
  ASSERT_EQ(moe::detail::e4m3ByInteger(value), expected) << value;
}

TEST(E4m3, EveryCode) {
  const auto &element = *reference::findElement("f8E4M3FN");
  for (unsigned code = 0; code < 256; ++code) {
    auto bits = static_cast<uint8_t>(code);
    double expected = reference::load(element, &bits, 0);
    double many;
    reference::loadMany(element, &bits, 1, &many);
    float stored;
    host::loadFloats(host::Storage::E4M3,
                     reinterpret_cast<const std::byte *>(&bits), 1, &stored);
    if ((code & 0x7f) == 0x7f) {
      EXPECT_TRUE(std::isnan(expected) && std::isnan(many) &&
                  std::isnan(stored) && std::isnan(templateDecode(code)));
      EXPECT_EQ(moe::detail::e4m3ByInteger(NAN), 0x7f);
      EXPECT_EQ(host::toE4m3(NAN), 0x7f);
      continue;
    }
    EXPECT_EQ(stored, expected) << code;
    EXPECT_EQ(many, expected) << code;
    EXPECT_EQ(templateDecode(code), expected) << code;
    EXPECT_EQ(std::signbit(templateDecode(code)), code >= 128) << code;
    // Both halves of a pair, beside a neighbour of all bits.
    unsigned pair = moe::detail::scaledHalves(code << 8 | 0xff);
    EXPECT_EQ(halfOf(pair >> 16) * 256.0f, expected) << code;
    EXPECT_EQ(moe::detail::halvesNan(pair), 0x7e00u) << code;
    expectEncodings(static_cast<float>(expected));
    EXPECT_EQ(host::toE4m3(static_cast<float>(expected)), code);
  }
  uint8_t one = 0x38, largest = 0x7e, smallest = 0x01;
  EXPECT_EQ(reference::load(element, &one, 0), 1);
  EXPECT_EQ(reference::load(element, &largest, 0), 448);
  EXPECT_EQ(reference::load(element, &smallest, 0), 0x1p-9);
}

TEST(E4m3, EveryHalfAndBfloat16) {
  for (unsigned bits = 0; bits < 0x10000; ++bits)
    for (float value : {host::fromF16(static_cast<uint16_t>(bits)),
                        host::fromBf16(static_cast<uint16_t>(bits))})
      if (!std::isnan(value))
        expectEncodings(value);
}

TEST(E4m3, AroundEveryPointWhereRoundingChanges) {
  for (unsigned code = 0; code < 0x7e; ++code) {
    float middle = 0.5f * (host::fromE4m3(static_cast<uint8_t>(code)) +
                           host::fromE4m3(static_cast<uint8_t>(code + 1)));
    for (float sign : {1.0f, -1.0f}) {
      expectEncodings(sign * middle);
      expectEncodings(sign * std::nextafter(middle, 0.0f));
      expectEncodings(sign * std::nextafter(middle, 1000.0f));
    }
    // Ties go to the even code.
    EXPECT_EQ(host::toE4m3(middle), code % 2 ? code + 1 : code);
  }
  for (float value : {448.0f, 464.0f, 1e30f, INFINITY}) {
    EXPECT_EQ(host::toE4m3(value), 0x7e);
    EXPECT_EQ(host::toE4m3(-value), 0xfe);
    expectEncodings(value);
  }
}
