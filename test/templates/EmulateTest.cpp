//===- EmulateTest.cpp - emulated activations -----------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Values that are quantized and dequantized at once: every half and
// every tie in the kernels' arithmetic against the reference, rows in the host
// device against the reference for each kind of scales, and scales by hand.
//
//===----------------------------------------------------------------------===//

#include "runtime/host/Emulate.h"
#include "runtime/host/Element.h"
#include "templates/moe/math/host.h"
#include "test/reference/FirstHalf.h"
#include "test/reference/TestData.h"

#include <nlohmann/json.hpp>

#include <bit>
#include <cmath>
#include <functional>
#include <gtest/gtest.h>

using namespace moec;

namespace {

struct Format {
  const char *name;
  float largest;
  std::function<float(float, float)> nearest;
};

const std::vector<Format> kFormats = {
    {"f8E4M3FN", 448, moe::detail::nearestSmallFloat<4, 3>},
    {"f8E5M2", 57344, moe::detail::nearestSmallFloat<5, 2>},
    {"f6E3M2FN", 28, moe::detail::nearestSmallFloat<3, 2>},
    {"f6E2M3FN", 7.5, moe::detail::nearestSmallFloat<2, 3>},
    {"f4E2M1FN", 6, moe::detail::nearestSmallFloat<2, 1>}};

TEST(Emulate, EveryHalf) {
  for (const Format &format : kFormats) {
    const reference::Element &element = *reference::findElement(format.name);
    for (unsigned bits = 0; bits < 1u << 16; ++bits) {
      const float value = host::fromF16(uint16_t(bits));
      const float left = format.nearest(value, format.largest);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(left)) << format.name;
        continue;
      }
      const float inside =
          std::fmin(std::fmax(value, -format.largest), format.largest);
      const auto expected = float(reference::roundTo(element, double(inside)));
      ASSERT_EQ(std::bit_cast<unsigned>(left),
                std::bit_cast<unsigned>(expected))
          << format.name << " " << value;
    }
  }
}

/// The middle of two neighbours, and the floats beside it.
TEST(Emulate, Ties) {
  for (const Format &format : kFormats) {
    const reference::Element &element = *reference::findElement(format.name);
    for (unsigned code = 0; code + 1 < 1u << (element.bits() - 1); ++code) {
      const uint8_t here = uint8_t(code), next = uint8_t(code + 1);
      const double low = reference::load(element, &here, 0);
      const double high = reference::load(element, &next, 0);
      if (!std::isfinite(low) || !std::isfinite(high))
        continue;
      const auto middle = float((low + high) / 2);
      for (float value : {middle, std::nextafterf(middle, 0.0f),
                          std::nextafterf(middle, 1e9f), -middle})
        EXPECT_EQ(double(format.nearest(value, format.largest)),
                  reference::roundTo(element, double(value)))
            << format.name << " " << value;
    }
  }
}

/// Scales of groups that are powers of two, on both sides of each.
TEST(Emulate, RaisedToPowers) {
  const reference::Element &element = *reference::findElement("f8E4M3FN");
  const auto expectPower = [&](float largest) {
    const float scale = std::fmax(largest, 1e-10f) / 448.0f;
    EXPECT_EQ(moe::detail::raisedToPower(scale),
              reference::powerFor(element, "ceil", largest, 128))
        << largest;
  };
  for (int exponent = -126; exponent < 128; ++exponent)
    for (float part : {1.0f, 1.75f, 1.75000012f, 1.74999988f, 1.99999988f})
      expectPower(std::ldexp(part, exponent));
  expectPower(0);
  EXPECT_EQ(moe::detail::raisedToPower(INFINITY), std::ldexp(1.0f, 127));
}

/// The exponent of the quotient that a division gives, raised to a whole one.
template <class T> void expectCeil(float largest) {
  const float quotient = largest / moe::quant::Format<T>::kLargest;
  const unsigned bits = std::bit_cast<unsigned>(quotient);
  const int expected = bits <= 0x400000u
                           ? -127
                           : int(bits >> 23) - 127 + ((bits & 0x7fffffu) != 0);
  ASSERT_EQ(moe::quant::Ceil::of<T>(largest), expected)
      << largest << " by " << moe::quant::Format<T>::kLargest;
}

template <class T> void expectAllCeils() {
  // A prime step, and all floats next to a power of two times the largest code.
  for (uint64_t bits = 0; bits <= 0x7f800000u; bits += 1009)
    ASSERT_NO_FATAL_FAILURE(
        expectCeil<T>(std::bit_cast<float>(unsigned(bits))));
  for (int exponent = -160; exponent < 128; ++exponent)
    for (float part : {1.0f, moe::quant::Format<T>::kLargest}) {
      const unsigned at = std::bit_cast<unsigned>(std::ldexp(part, exponent));
      for (unsigned bits = at < 4 ? 0 : at - 4;
           bits <= std::min(at + 4, 0x7f800000u); ++bits)
        ASSERT_NO_FATAL_FAILURE(expectCeil<T>(std::bit_cast<float>(bits)));
    }
  ASSERT_NO_FATAL_FAILURE(expectCeil<T>(INFINITY));
}

/// Without a division the exponents are those of one.
TEST(Emulate, CeilDividesByTheLargestCode) {
  expectAllCeils<moe::e4m3>();
  expectAllCeils<moe::e5m2>();
  expectAllCeils<moe::e3m2>();
  expectAllCeils<moe::e2m3>();
  expectAllCeils<moe::e2m1>();
}

/// A kind of scales, as a stage and as the reference say it.
struct Kind {
  const char *element;
  int64_t rows, columns;
  const char *rule = "";
  bool dynamic = true, second = false, perToken = false;

  host::Emulation onHost() const {
    Stage stage;
    stage.op = "quantize";
    *stage.attributes = {{"emulates", element},
                         {"group_rows", rows},
                         {"group_columns", columns},
                         {"dynamic", dynamic}};
    if (*rule)
      stage.attributes["scale_rule"] = rule;
    if (second)
      stage.attributes["second_per_row"] = perToken;
    const Manifest manifest;
    const Target target;
    const Kernel kernel;
    host::KernelRun run(manifest, target, kernel);
    run.stage = &stage;
    Result<host::Emulation> read = host::Emulation::read(run);
    EXPECT_TRUE(bool(read)) << element;
    return read ? *read : host::Emulation();
  }
  reference::Scaling inReference() const {
    reference::Scaling scaling;
    scaling.given = true;
    scaling.rows = rows, scaling.columns = columns;
    scaling.dynamic = dynamic;
    scaling.second = second, scaling.secondPerRow = perToken;
    scaling.rule = rule;
    return scaling;
  }
};

std::vector<Kind> kinds() {
  std::vector<Kind> made;
  for (const char *element :
       {"f8E4M3FN", "f8E5M2", "f6E3M2FN", "f6E2M3FN", "f4E2M1FN"}) {
    for (const char *rule : {"even", "ceil", "floor"})
      for (int64_t columns : {16, 32, 128})
        made.push_back({element, 1, columns, rule});
    for (bool perToken : {false, true})
      made.push_back({element, 1, 16, "", true, true, perToken});
  }
  for (const char *element : {"f8E4M3FN", "f4E2M1FN", "i8"}) {
    made.push_back({element, 1, 128});
    made.push_back({element, 1, -1});
    made.push_back({element, -1, -1, "", false});
  }
  return made;
}

/// Rows whose groups differ by up to 2^24 in size, some of them zero.
TEST(Emulate, RowsOnTheHostAndInTheReference) {
  constexpr int64_t kColumns = 328;
  const reference::Element &bf16 = *reference::findElement("bf16");
  for (const Kind &kind : kinds())
    for (int64_t row = 0; row < 64; ++row) {
      std::vector<float> onHost(kColumns);
      std::vector<double> inReference(kColumns);
      for (int64_t c = 0; c < kColumns; ++c) {
        const uint64_t index = uint64_t(row * kColumns + c);
        const double draw =
            reference::randomNormal(5, reference::Stream::X, index);
        const double size = std::ldexp(1.0, int((row + c / 16) % 24) - 16);
        inReference[c] =
            row % 7 == 3 && c < 48 ? 0 : reference::roundTo(bf16, draw * size);
        onHost[c] = float(inReference[c]);
      }
      kind.onHost().run(onHost.data(), kColumns, 0.037f);
      reference::emulateRow(*reference::findElement(kind.element),
                            kind.inReference(), 0.037f, bf16,
                            inReference.data(), kColumns);
      for (int64_t c = 0; c < kColumns; ++c)
        ASSERT_EQ(reference::roundTo(bf16, double(onHost[c])), inReference[c])
            << kind.element << " [" << kind.rows << ", " << kind.columns << "] "
            << kind.rule << " row " << row << " column " << c;
    }
}

/// Groups of one number, which is every half and bfloat16: the least of all
/// scales, and what saturates, too.
TEST(Emulate, EveryNumberOnTheHostAndInTheReference) {
  const reference::Element &f32 = *reference::findElement("f32");
  for (const Kind &kind : kinds()) {
    const host::Emulation onHost = kind.onHost();
    const reference::Scaling scaling = kind.inReference();
    const reference::Element &element = *reference::findElement(kind.element);
    for (unsigned bits = 0; bits < 1u << 16; ++bits)
      for (float value :
           {host::fromF16(uint16_t(bits)), host::fromBf16(uint16_t(bits))}) {
        float left = value;
        double expected = double(value);
        onHost.run(&left, 1, 0.037f);
        reference::emulateRow(element, scaling, 0.037f, f32, &expected, 1);
        if (std::isnan(expected))
          ASSERT_TRUE(std::isnan(left)) << kind.element << " " << value;
        else
          ASSERT_EQ(double(left), expected)
              << kind.element << " [" << kind.rows << ", " << kind.columns
              << "] " << kind.rule << " " << value;
      }
  }
}

/// The scale of a group whose largest value is given, seen in what 1 / 8 of a
/// step becomes: values below half a step of the smallest vanish.
double scaleOf(const char *element, const char *rule, double largest) {
  // A value that is exactly one of the format's smallest numbers tells the
  // scale: the smallest multiple that stays is the scale's.
  const reference::Scaling scaling = Kind{element, 1, 16, rule}.inReference();
  const reference::Element &type = *reference::findElement(element);
  const uint8_t one = 1; // the smallest number's code
  const double smallest = reference::load(type, &one, 0);
  for (int exponent = -60; exponent <= 60; ++exponent) {
    std::vector<double> values(16, 0.0);
    values[0] = largest;
    values[1] = std::ldexp(smallest, exponent);
    const double before = values[1];
    reference::emulateRow(type, scaling, 1, *reference::findElement("f32"),
                          values.data(), 16);
    if (values[1] == before)
      return std::ldexp(1.0, exponent);
  }
  return 0;
}

TEST(Emulate, ScalesByHand) {
  // 6 x 2^e is the largest of e2m1; 7 is nearer to 8 than to 6.
  EXPECT_EQ(scaleOf("f4E2M1FN", "even", 6), 1);
  EXPECT_EQ(scaleOf("f4E2M1FN", "even", 6.75), 1);
  EXPECT_EQ(scaleOf("f4E2M1FN", "even", 7), 2);
  EXPECT_EQ(scaleOf("f4E2M1FN", "even", 4), 1);
  EXPECT_EQ(scaleOf("f4E2M1FN", "even", 3.5), 1);
  EXPECT_EQ(scaleOf("f4E2M1FN", "even", 3.25), 0.5);
  EXPECT_EQ(scaleOf("f4E2M1FN", "ceil", 6), 1);
  EXPECT_EQ(scaleOf("f4E2M1FN", "ceil", 6.125), 2);
  EXPECT_EQ(scaleOf("f4E2M1FN", "floor", 7.875), 1);
  EXPECT_EQ(scaleOf("f4E2M1FN", "floor", 8), 2);
  EXPECT_EQ(scaleOf("f8E4M3FN", "ceil", 448), 1);
  EXPECT_EQ(scaleOf("f8E4M3FN", "ceil", 449), 2);
  EXPECT_EQ(scaleOf("f8E4M3FN", "floor", 511), 1);
  EXPECT_EQ(scaleOf("f6E3M2FN", "even", 28), 1);
  EXPECT_EQ(scaleOf("f6E3M2FN", "even", 30), 2);
  EXPECT_EQ(scaleOf("f6E2M3FN", "even", 7.5), 1);
}

} // namespace
