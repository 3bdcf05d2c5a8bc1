//===- CheckTest.cpp - each rule fails on the fault it is there for -------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Faults of known size are planted in an output that is otherwise right. Each
// test says which rule sees it, and that the others do not.
//
//===----------------------------------------------------------------------===//

#include "test/reference/Check.h"
#include "test/reference/TestData.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

using namespace moec::reference;
using testing::HasSubstr;

namespace {

/// A reference of random rows with norms over 2^8, and the output in f32.
struct Output {
  explicit Output(int64_t tokens, int64_t columns)
      : columns(columns), reference(tokens * columns), out(tokens * columns),
        list(tokens) {
    std::iota(list.begin(), list.end(), 0);
    for (int64_t i = 0; i < tokens * columns; ++i) {
      const double scale = std::ldexp(1.0, int(i / columns % 9) - 4);
      reference[i] = scale * randomNormal(7, Stream::Other, i);
      out[i] = float(reference[i]);
    }
  }
  Report check(double bound) const {
    return compareRows(reference, list, columns, out.data(),
                       *findElement("f32"), columns, bound);
  }
  int64_t columns;
  std::vector<double> reference;
  std::vector<float> out;
  std::vector<int64_t> list;
};

constexpr double kBf16 = 2.5e-3;

TEST(Check, RightOutputPasses) {
  Output output(64, 128);
  const Report report = output.check(1e-5);
  EXPECT_TRUE(report.passed) << report.text;
  EXPECT_LT(report.whole, 1e-7);
  EXPECT_THAT(report.text, HasSubstr("passed"));
}

TEST(Check, WholeRuleSeesASmallErrorEverywhere) {
  Output output(64, 128);
  for (float &value : output.out)
    value *= 1.003f; // within the row rule and the element rule
  const Report report = output.check(kBf16);
  EXPECT_FALSE(report.passed);
  EXPECT_THAT(report.text, HasSubstr("whole tensor 0.003 > 0.002"));
  EXPECT_LE(report.worstRow, kRowFactor * kBf16);
  EXPECT_LE(report.worstElement, kElementFactor * kBf16);
}

TEST(Check, RowRuleSeesOneRowOfMany) {
  Output output(512, 128);
  for (int64_t c = 0; c < 128; ++c)
    output.out[18 * 128 + c] *= 1.01f; // one row, of the smallest norm
  const Report report = output.check(kBf16);
  EXPECT_FALSE(report.passed);
  EXPECT_LE(report.whole, kBf16);
  EXPECT_LE(report.worstElement, kElementFactor * kBf16);
  EXPECT_EQ(report.worstRowToken, 18);
  EXPECT_THAT(report.text, HasSubstr("row of token 18 0.01 > 0.00625"));
}

TEST(Check, ElementRuleSeesOneElement) {
  Output output(16, 4096);
  double norm2 = 0;
  for (int64_t c = 0; c < 4096; ++c)
    norm2 += std::pow(output.reference[5 * 4096 + c], 2);
  const double rms = std::sqrt(norm2 / 4096);
  output.out[5 * 4096 + 77] += float(0.2 * rms);
  const Report report = output.check(kBf16);
  EXPECT_FALSE(report.passed);
  EXPECT_LE(report.whole, kBf16);
  EXPECT_LE(report.worstRow, kRowFactor * kBf16) << "0.2 / sqrt(4096)";
  EXPECT_EQ(report.worstElementToken, 5);
  EXPECT_EQ(report.worstElementColumn, 77);
  EXPECT_THAT(report.text, HasSubstr("token 5 column 77"));
}

TEST(Check, AWrongFragmentAtM8192IsSeenByRowAndElementAlone) {
  // 16 x 8 zeros in 8192 x 2048: far below the bound of the whole.
  const int64_t tokens = 8192, columns = 2048;
  Output output(tokens, columns);
  for (int64_t m = 4096; m < 4112; ++m)
    for (int64_t c = 512; c < 520; ++c)
      output.out[m * columns + c] = 0;
  const Report report = output.check(kBf16);
  EXPECT_FALSE(report.passed);
  EXPECT_LT(report.whole, 5e-3);
  EXPECT_GT(report.worstRow, kRowFactor * kBf16);
  EXPECT_GT(report.worstElement, kElementFactor * kBf16);
  EXPECT_GE(report.worstRowToken, 4096);
  EXPECT_LT(report.worstRowToken, 4112);
}

TEST(Check, SmallElementsAreJudgedByTheirRow) {
  // Cancellation leaves a small element; its error is judged by the row's rms.
  Output output(1, 64);
  output.reference[3] = 0;
  output.out[3] = 1e-4f;
  EXPECT_TRUE(output.check(kBf16).passed);
}

TEST(Check, NumbersBelowTheNormalRangeAreJudgedAsItsSmallest) {
  const Element &f16 = *findElement("f16");
  constexpr int64_t kColumns = 512;
  const double smallest = std::ldexp(1.0, -14);
  std::vector<double> reference(kColumns);
  std::vector<uint16_t> out(kColumns);
  for (int64_t i = 0; i < kColumns; ++i) {
    reference[i] = smallest / 8 * randomNormal(7, Stream::Other, i);
    store(f16, out.data(), i, reference[i]);
  }
  auto check = [&] {
    return compareRows(reference, {0}, kColumns, out.data(), f16, kColumns,
                       4e-4);
  };
  EXPECT_TRUE(check().passed) << check().text;
  // A fault there is seen like one in numbers of the smallest's size.
  store(f16, out.data(), 5, reference[5] + smallest / 50);
  EXPECT_THAT(check().text, HasSubstr("token 0 column 5"));
  store(f16, out.data(), 5, reference[5]);
  for (int64_t i = 0; i < kColumns; ++i)
    store(f16, out.data(), i, reference[i] + smallest / 1000);
  EXPECT_THAT(check().text, HasSubstr("whole tensor"));
}

TEST(Check, NanAndInfinityNeverPass) {
  for (float bad : {std::numeric_limits<float>::quiet_NaN(),
                    std::numeric_limits<float>::infinity()}) {
    Output output(4, 32);
    output.out[40] = bad;
    const Report report = output.check(1e9);
    EXPECT_FALSE(report.passed);
    EXPECT_EQ(report.notFinite, 1);
    EXPECT_EQ(report.worstElementToken, 1);
    EXPECT_EQ(report.worstElementColumn, 8);
  }
}

TEST(Check, PoisonIsNeverAResult) {
  Output output(4, 32);
  poison(&output.out[64], 32 * 4);
  EXPECT_EQ(output.check(1e9).notFinite, 32);
}

TEST(Check, ZeroRowsMustBeZero) {
  Output output(2, 32);
  for (int64_t c = 0; c < 32; ++c)
    output.reference[c] = output.out[c] = 0;
  EXPECT_TRUE(output.check(kBf16).passed);
  output.out[9] = 1e-20f;
  const Report report = output.check(kBf16);
  EXPECT_FALSE(report.passed);
  EXPECT_EQ(report.worstRowToken, 0);
}

TEST(Check, NoTokensPass) {
  Output output(0, 32);
  EXPECT_TRUE(output.check(kBf16).passed);
}

TEST(Check, ListAndRowStrideAreObeyed) {
  // Token 2 of an output with stride 40 where rows have 32 columns.
  std::vector<double> reference(32, 1.0);
  std::vector<float> out(3 * 40, -5.0f);
  std::fill_n(out.begin() + 80, 32, 1.0f);
  EXPECT_TRUE(
      compareRows(reference, {2}, 32, out.data(), *findElement("f32"), 40, 1e-5)
          .passed);
  const Report report = compareRows(reference, {1}, 32, out.data(),
                                    *findElement("f32"), 40, 1e-5);
  EXPECT_FALSE(report.passed);
  EXPECT_EQ(report.worstRowToken, 1);
}

TEST(Check, WhatDoesNotFitIsAnInfinity) {
  const Element &f16 = *findElement("f16");
  const auto passes = [&](double expected, uint16_t bits) {
    std::vector<uint16_t> out(32, 0x3c00);
    std::vector<double> reference(32, 1.0);
    reference[5] = expected, out[5] = bits;
    return compareRows(reference, {0}, 32, out.data(), f16, 32, 4e-4).passed;
  };
  EXPECT_TRUE(passes(70000, 0x7c00));
  EXPECT_TRUE(passes(-70000, 0xfc00));
  EXPECT_FALSE(passes(70000, 0xfc00));
  EXPECT_FALSE(passes(60000, 0x7c00));
  EXPECT_FALSE(passes(-65518, 0x7c00));
  EXPECT_TRUE(passes(65518, 0x7c00)); // 65520 is the first that becomes one
  EXPECT_TRUE(passes(65522, 0x7bff));
  EXPECT_FALSE(passes(70000, 0x7e00)); // NaN
}

TEST(Check, TheWholeOfFewValuesIsJudgedAsARow) {
  const auto kColumns = int64_t(kFewValues);
  // Two rows; the first one has nearly all of the norm if `first` is large.
  auto passes = [&](double first, int64_t columns, double valuesPerRow) {
    std::vector<double> reference(2 * columns, 1);
    std::fill_n(reference.begin(), columns, first);
    std::vector<float> out(reference.begin(), reference.end());
    for (float &value : out)
      value *= 1.0039f;
    return compareRows(reference, {0, 1}, columns, out.data(),
                       *findElement("f32"), columns, kBf16, valuesPerRow)
        .passed;
  };
  EXPECT_TRUE(passes(64, kColumns, kFewValues / 2));
  EXPECT_FALSE(passes(64, kColumns, kFewValues));
  // Rows of one size count as two.
  EXPECT_FALSE(passes(1, kColumns, kFewValues / 2));
}

TEST(Check, TheBoundOfTheWholeGrowsForFewElements) {
  auto passes = [&](int64_t columns, float factor) {
    const std::vector<double> reference(columns, 1);
    const std::vector<float> out(columns, factor);
    return compareRows(reference, {0}, columns, out.data(), *findElement("f32"),
                       columns, kBf16)
        .passed;
  };
  EXPECT_TRUE(passes(400, 1 + 1.09f * float(kBf16)));
  EXPECT_FALSE(passes(400, 1 + 1.11f * float(kBf16)));
  EXPECT_FALSE(passes(40000, 1 + 1.09f * float(kBf16)));
}

TEST(Check, DevicesAreComparedRowByRow) {
  std::vector<float> a(64 * 16, 2.0f), b = a;
  EXPECT_TRUE(
      compareDevices(a.data(), b.data(), *findElement("f32"), 64, 16, 1e-5)
          .passed);
  b[63 * 16 + 15] = 2.5f;
  const Report report =
      compareDevices(a.data(), b.data(), *findElement("f32"), 64, 16, 2.5e-3);
  EXPECT_FALSE(report.passed);
  EXPECT_EQ(report.worstElementToken, 63);
  EXPECT_EQ(report.worstElementColumn, 15);
}

TEST(Check, BoundsFollowTheStructure) {
  Layer layer;
  auto bound = [&](const char *activation, const char *weight, bool rounded) {
    layer.a1 = layer.a2 = findElement(activation);
    layer.weightType = findElement(weight);
    return boundFor(layer, rounded);
  };
  EXPECT_EQ(*bound("f32", "f32", false), 1e-5);
  EXPECT_EQ(*bound("f16", "f16", false), 4e-4);
  EXPECT_EQ(*bound("bf16", "bf16", false), 2.5e-3);
  EXPECT_EQ(*bound("bf16", "bf16", true), 3e-3);
  // An output with fewer bits has its own bound, one with more the operands'.
  layer.outputType = findElement("f16");
  EXPECT_EQ(*bound("f32", "f32", false), 4e-4);
  EXPECT_EQ(*bound("bf16", "bf16", false), 2.5e-3);
  layer.outputType = findElement("f32");
  EXPECT_EQ(*bound("bf16", "bf16", false), 2.5e-3);
  EXPECT_EQ(*bound("f8E4M3FN", "f8E4M3FN", true), 6e-3);
  EXPECT_EQ(*bound("i8", "i8", false), 6e-3);
  EXPECT_EQ(*bound("i8", "i4", false), 6e-3);
  EXPECT_EQ(*bound("f8E4M3FN", "f4E2M1FN", false), 6e-3);
  layer.accumulatesFast = true;
  EXPECT_EQ(*bound("f8E4M3FN", "f8E4M3FN", true), 2.5e-2);
  layer.accumulatesFast = false;
  layer.w1Scaling.given = true;
  EXPECT_EQ(*bound("bf16", "i4", false), 2.5e-3);
  EXPECT_EQ(*bound("f16", "f8E4M3FN", false), 4e-4);
  // Emulated: by the codes of the activations, the coarser of the two.
  layer.computeType = findElement("bf16");
  EXPECT_EQ(*bound("f4E2M1FN", "f4E2M1FN", false), 2e-2);
  EXPECT_EQ(*bound("f8E4M3FN", "f4E2M1FN", false), 6e-3);
  EXPECT_EQ(*bound("i8", "i4", false), 6e-3);
  EXPECT_EQ(*bound("f6E3M2FN", "f6E3M2FN", false), 6e-3);
  layer.a2 = findElement("f4E2M1FN");
  EXPECT_EQ(*boundFor(layer, false), 2e-2);
  layer.computeType = nullptr;
  layer.w1Scaling.given = false;
  const auto missing = bound("bf16", "f32", false);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().message,
            "no bound for activations of bf16 with weights of f32; known are "
            "equal types of f32, f16, bf16, f8E4M3FN, i8 "
            "and of i4 with f8E4M3FN or i8, f4E2M1FN with f8E4M3FN");
}

TEST(CheckRouting, EachPartIsCompared) {
  Routing routing;
  routing.tokens = 2;
  routing.pairs = 2;
  routing.ids = {3, 1, 2, -1};
  routing.weights = {0.75f, 0.25f, 1.0f, 0.0f};
  routing.counts = {0, 1, 1, 1};
  std::vector<int32_t> ids = routing.ids, counts = {0, 1, 1, 1};
  std::vector<float> weights = routing.weights;
  weights[3] = 123; // of no expert: of no meaning
  EXPECT_EQ(compareRouting(routing, ids.data(), weights.data(), counts.data()),
            "");
  weights[0] = 0.75f * (1 + 1e-6f);
  EXPECT_EQ(compareRouting(routing, ids.data(), weights.data(), nullptr), "");
  weights[0] = 0.75f * (1 + 4e-6f);
  EXPECT_THAT(compareRouting(routing, ids.data(), weights.data(), nullptr),
              HasSubstr("weights[0, 0] is"));
  weights[0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(compareRouting(routing, ids.data(), weights.data(), nullptr),
              HasSubstr("weights[0, 0] is"));
  std::swap(ids[0], ids[1]);
  EXPECT_EQ(compareRouting(routing, ids.data(), nullptr, nullptr),
            "ids[0, 0] is 1, expected 3");
  counts[2] = 2;
  EXPECT_EQ(compareRouting(routing, nullptr, nullptr, counts.data()),
            "counts[2] is 2, expected 1");
  routing.mistakes = 1;
  routing.firstMistake = "token 1 selected nonsense";
  EXPECT_EQ(compareRouting(routing, nullptr, nullptr, nullptr),
            "1 tokens are routed wrongly; token 1 selected nonsense");
}

TEST(Canary, DamageIsFoundOnBothSides) {
  GuardedBuffer buffer(100);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 256, 0u);
  EXPECT_EQ(buffer.damage(), "");
  auto *bytes = static_cast<unsigned char *>(buffer.data());
  EXPECT_EQ(bytes[0], 0xFF);
  EXPECT_EQ(bytes[99], 0xFF);
  GuardedBuffer moved = std::move(buffer);
  EXPECT_EQ(moved.damage(), "") << "moving keeps the memory";
  bytes = static_cast<unsigned char *>(moved.data());
  bytes[103] ^= 1;
  EXPECT_EQ(moved.damage(), "byte 3 behind the buffer's 100 was overwritten");
  bytes[103] ^= 1;
  bytes[-1] ^= 0x80;
  EXPECT_EQ(moved.damage(), "byte 1 before the buffer was overwritten");
}

TEST(Canary, NoConstantFillPassesForACanary) {
  std::vector<unsigned char> bytes(kCanaryBytes);
  writeCanary(bytes.data(), kCanaryBytes, 9);
  EXPECT_EQ(findDamage(bytes.data(), kCanaryBytes, 9), -1);
  EXPECT_NE(findDamage(bytes.data(), kCanaryBytes, 10), -1);
  for (int value : {0x00, 0xFF}) {
    std::fill(bytes.begin(), bytes.end(), value);
    EXPECT_LE(findDamage(bytes.data(), kCanaryBytes, 9), 1);
  }
}

} // namespace
