//===- SmallFloatsTest.cpp - all codes of few bits agree ------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The number of each code of a format, in the kernels' arithmetic, by its
// name in the host device, and in the reference. There and back in the
// reference, and its rounding of every half and of the ties between codes.
//
//===----------------------------------------------------------------------===//

#include "runtime/host/Element.h"
#include "templates/moe/math/host.h"
#include "test/reference/Element.h"

#include <cmath>
#include <functional>
#include <gtest/gtest.h>

using namespace moec;

namespace {

struct Format {
  const char *name;
  host::Storage storage;
  unsigned bits;
  double largest; ///< 0: no float
  std::function<float(unsigned)> decode;
};

const std::vector<Format> kFormats = {
    {"f8E4M3FN", host::Storage::E4M3, 8, 448, nullptr}, // see E4m3Test.cpp
    {"f8E5M2", host::Storage::E5M2, 8, 57344,
     [](unsigned code) { return host::fromF16(uint16_t(code << 8)); }},
    {"f6E3M2FN", host::Storage::E3M2, 6, 28, moe::detail::smallFloat<3, 2>},
    {"f6E2M3FN", host::Storage::E2M3, 6, 7.5, moe::detail::smallFloat<2, 3>},
    {"f4E2M1FN", host::Storage::E2M1, 4, 6, moe::detail::smallFloat<2, 1>},
    {"f8E8M0FNU", host::Storage::UE8M0, 8, 0x1p127, moe::detail::powerOfTwo},
    {"i8", host::Storage::I8, 8, 0,
     [](unsigned code) { return float(int8_t(code)); }},
    {"i4", host::Storage::I4, 4, 0, [](unsigned code) { return float(code); }},
};

double valueOf(const reference::Element &element, unsigned code) {
  const auto byte = static_cast<uint8_t>(code);
  return reference::load(element, &byte, 0);
}

TEST(SmallFloats, EveryCode) {
  for (const Format &format : kFormats) {
    const reference::Element &element = *reference::findElement(format.name);
    ASSERT_EQ(element.bits(), format.bits) << format.name;
    for (unsigned code = 0; code < 1u << format.bits; ++code) {
      const double expected = valueOf(element, code);
      const float stored = host::fromCode(format.storage, uint8_t(code));
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(stored)) << format.name << " " << code;
        if (format.decode) {
          EXPECT_TRUE(std::isnan(format.decode(code))) << format.name;
        }
        continue;
      }
      EXPECT_EQ(stored, expected) << format.name << " " << code;
      if (format.decode) {
        EXPECT_EQ(format.decode(code), expected) << format.name << " " << code;
      }
      if (format.largest > 0 && std::isfinite(expected)) {
        EXPECT_LE(std::fabs(expected), format.largest) << format.name;
      }
      // And back; -128 is no weight's code.
      if (format.storage == host::Storage::I8 && code == 128)
        continue;
      uint8_t back = 0;
      reference::store(element, &back, 0, expected);
      EXPECT_EQ(back, code) << format.name;
    }
  }
}

TEST(SmallFloats, NeighboursInAByteAreApart) {
  for (const Format &format : kFormats) {
    const reference::Element &element = *reference::findElement(format.name);
    constexpr int64_t kCount = 67;
    std::vector<uint8_t> bytes(element.bytesOf(kCount), 0xff);
    std::vector<unsigned> codes;
    for (int64_t i = 0; i < kCount; ++i) {
      unsigned code = unsigned(i * 37 + 11) % (1u << format.bits);
      if (std::isnan(valueOf(element, code)) || code == 128)
        code = 1;
      codes.push_back(code);
      reference::store(element, bytes.data(), i, valueOf(element, code));
    }
    std::vector<float> read(kCount);
    host::loadFloats(format.storage,
                     reinterpret_cast<const std::byte *>(bytes.data()), kCount,
                     read.data());
    for (int64_t i = 0; i < kCount; ++i) {
      EXPECT_EQ(reference::load(element, bytes.data(), i),
                valueOf(element, codes[i]))
          << format.name << " " << i;
      EXPECT_EQ(read[i], valueOf(element, codes[i])) << format.name << " " << i;
    }
  }
}

/// The nearest of all codes' values, of two the one whose code is even;
/// saturated. By search, from the codes alone.
double nearest(const reference::Element &element, unsigned codes, double value,
               double largest) {
  double best = 0, distance = HUGE_VAL;
  unsigned bestCode = 0;
  for (unsigned code = 0; code < codes; ++code) {
    const double candidate = valueOf(element, code);
    if (!std::isfinite(candidate))
      continue;
    const double off = std::fabs(candidate - value);
    if (off < distance || (off == distance && code % 2 == 0 && bestCode % 2)) {
      best = candidate;
      distance = off;
      bestCode = code;
    }
  }
  return std::fabs(value) > largest ? std::copysign(largest, value) : best;
}

TEST(SmallFloats, RoundingOfEveryHalf) {
  for (const Format &format : kFormats) {
    // Infinities of e5m2, and powers of two, round by rules of their own.
    if (format.largest == 0 || format.storage == host::Storage::UE8M0 ||
        format.storage == host::Storage::E5M2)
      continue;
    const reference::Element &element = *reference::findElement(format.name);
    const unsigned step = format.bits == 8 ? 7 : 1; // 256 codes are searched
    for (unsigned half = 0; half < 0x10000; half += step) {
      const double value = host::fromF16(static_cast<uint16_t>(half));
      if (!std::isfinite(value))
        continue;
      ASSERT_EQ(reference::roundTo(element, value),
                nearest(element, 1u << format.bits, value, format.largest))
          << format.name << " " << value;
    }
  }
}

TEST(SmallFloats, IntegersOfEveryHalf) {
  const reference::Element &element = *reference::findElement("i8");
  for (unsigned half = 0; half < 0x10000; ++half)
    // And the floats beside it: a tie is none any more.
    for (int beside = -1; beside <= 1; ++beside) {
      float value = host::fromF16(static_cast<uint16_t>(half));
      if (beside != 0)
        value = std::nextafter(value, beside * HUGE_VALF);
      int8_t expected = 0;
      reference::store(element, &expected, 0, value);
      ASSERT_EQ(host::toI8(value), expected) << value;
      const double size = std::min(std::fabs(double(value)), 127.0);
      const double off = std::fabs(std::fabs(double(expected)) - size);
      if (std::isnan(value))
        ASSERT_EQ(expected, 0);
      else
        ASSERT_TRUE(off < 0.5 || (off == 0.5 && expected % 2 == 0)) << value;
    }
}

TEST(SmallFloats, FourCodesOf4BitsAsElementsOf8) {
  for (unsigned codes = 0; codes < 0x10000; ++codes) {
    const unsigned integers = moe::detail::integersOf4(codes),
                   floats = moe::detail::floatsOf4(codes);
    unsigned halves = 0xa5a5a5a5u & 0xf0f0f0f0u; // the others do not count
    for (int i = 0; i < 4; ++i)
      halves |= (codes >> 4 * i & 15) << 8 * i;
    const unsigned parts = moe::detail::floatsOfHalves(halves);
    for (int i = 0; i < 4; ++i) {
      const float expected = float(codes >> 4 * i & 15) - 8;
      ASSERT_EQ(host::fromCode(host::Storage::I8, uint8_t(integers >> 8 * i)),
                expected)
          << codes;
      ASSERT_EQ(host::fromCode(host::Storage::E4M3, uint8_t(floats >> 8 * i)),
                expected)
          << codes;
      ASSERT_EQ(host::fromCode(host::Storage::E4M3, uint8_t(parts >> 8 * i)),
                expected * 0x1p-9f)
          << codes;
    }
  }
}

TEST(SmallFloats, PowersOfTwo) {
  const reference::Element &power = *reference::findElement("f8E8M0FNU");
  EXPECT_EQ(reference::roundTo(power, 1.4), 1);
  EXPECT_EQ(reference::roundTo(power, 1.6), 2);
  EXPECT_EQ(reference::roundTo(power, 0x1p-140), 0x1p-127);
  EXPECT_EQ(reference::roundTo(power, 0x1p140), 0x1p127);
}

} // namespace
