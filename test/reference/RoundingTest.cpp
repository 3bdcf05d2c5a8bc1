//===- RoundingTest.cpp - roundings are adopted, faults are not -----------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Outputs of an engine whose sums are off by the stated error, and the same
// with faults. The error itself is that of a modelled tensor core.
//
//===----------------------------------------------------------------------===//

#include "test/reference/Rounding.h"
#include "test/reference/Check.h"
#include "test/reference/FirstHalf.h"
#include "test/reference/TestData.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

using namespace moec::reference;

namespace {

constexpr uint64_t kSeed = 3;
constexpr double kBound = 6e-3;
/// Sums of the modelled engine are off by this part of what is stated.
constexpr double kDeviations = 8;

/// A layer in fp8 with its reference and an output.
struct Case {
  explicit Case(int64_t tokens, int64_t groupColumns = -1, bool tensor = false)
      : x(tokens * 256), logits(tokens * 4), list(tokens) {
    layer.experts = layer.localExperts = 4;
    layer.topK = 3;
    layer.hidden = 256;
    layer.intermediate = 144;
    layer.inputType = layer.outputType = layer.logitsType = findElement("f32");
    layer.score = "identity";
    layer.normalize = "softmax";
    layer.function = "silu";
    layer.a1 = layer.a2 = layer.weightType = findElement("f8E4M3FN");
    layer.w1Scaling = layer.w2Scaling = {true, 1, -1, false};
    if (groupColumns > 0)
      layer.w1Scaling = layer.w2Scaling = {true, 128, 128, false};
    layer.a1Scaling =
        layer.a2Scaling = {true, tensor ? -1 : 1, groupColumns, true};
    fillX(layer, kSeed, 0, tokens, x.data(), layer.hidden);
    EXPECT_TRUE(fillLogits(layer, kSeed, "uniform", 0, tokens,
                           *layer.logitsType, logits.data()));
    inputs.tokens = tokens;
    inputs.x = {x.data(), layer.inputType, 0};
    inputs.logits = {logits.data(), layer.logitsType, 0};
    inputs.w13 = makeW13(layer, kSeed);
    inputs.w2 = makeW2(layer, kSeed);
    inputs.w13Scale = makeW13Scale(layer, kSeed);
    inputs.w2Scale = makeW2Scale(layer, kSeed);
    std::iota(list.begin(), list.end(), 0);
    routing = *route(layer, inputs);
    rows = *compute(layer, inputs, routing, list);
    run();
  }

  /// The layer with t off, in normal deviates of the stated error's eighth.
  void run() {
    std::vector<double> sum(rows.size()), t, uncertainty, y;
    const auto pairs = pairsOf(layer, routing, list);
    FirstHalf firstHalf(layer, inputs, routing, 0);
    const float tScale = scaleOfT(layer, inputs, routing, firstHalf).scale;
    for (int64_t expert = 0; expert < layer.experts; ++expert) {
      std::vector<int64_t> ofExpert;
      for (const Pair &pair : pairs[expert])
        ofExpert.push_back(pair.pair);
      const int64_t count = int64_t(ofExpert.size());
      firstHalf.run(expert, ofExpert, kNativeE4m3Error, t, uncertainty);
      for (int64_t p = 0; p < count; ++p) {
        double *row = &t[p * layer.intermediate];
        for (int64_t i = 0; i < layer.intermediate; ++i)
          row[i] +=
              uncertainty[p * layer.intermediate + i] / kDeviations *
              randomNormal(kSeed, Stream::Other,
                           (expert * 1000 + list[pairs[expert][p].row]) * 1000 +
                               i);
        quantizeRow(*layer.a2, layer.a2Scaling, tScale, row,
                    layer.intermediate);
      }
      multiply(t, count, layer.intermediate, inputs.w2,
               scalesOfW2(layer, inputs), nullptr, expert, layer.hidden, 0, y);
      for (int64_t p = 0; p < count; ++p)
        for (int64_t n = 0; n < layer.hidden; ++n)
          sum[pairs[expert][p].row * layer.hidden + n] +=
              pairs[expert][p].weight * y[p * layer.hidden + n];
    }
    out.assign(sum.begin(), sum.end());
  }

  Report check() const {
    return compareRows(rows, list, layer.hidden, out.data(), *layer.outputType,
                       layer.hidden, kBound);
  }
  Adopted adopt(double error = kNativeE4m3Error) {
    auto adopted =
        adoptRoundings(layer, inputs, routing, list, error, kBound, out.data(),
                       *layer.outputType, layer.hidden, rows);
    EXPECT_TRUE(adopted) << (adopted ? "" : adopted.error().message);
    return adopted ? *adopted : Adopted();
  }

  Layer layer;
  Inputs inputs;
  std::vector<float> x, logits, out;
  std::vector<int64_t> list;
  Routing routing;
  std::vector<double> rows;
};

TEST(Rounding, WhatTheSumsLeaveOpenIsAdopted) {
  for (auto [columns, tensor] :
       {std::pair(-1, false), {128, false}, {-1, true}}) {
    constexpr int64_t kTokens = 100;
    Case one(kTokens, columns, tensor);
    const Report before = one.check();
    EXPECT_GT(before.worstRow, kBound) << "steps of e4m3 are seen";
    const Adopted adopted = one.adopt();
    EXPECT_GT(adopted.taken, 10);
    EXPECT_LT(adopted.candidates, kTokens * 3 * 144 / 20) << "few are open";
    EXPECT_LT(adopted.taken, adopted.candidates / 4);
    const Report after = one.check();
    EXPECT_TRUE(after.passed) << after.text;
    EXPECT_LT(after.whole, kBound / 10) << "all of them were found";
    EXPECT_LT(after.worstRow, before.worstRow / 3);
  }
}

TEST(Rounding, ExactSumsLeaveNothingOpen) {
  Case one(50);
  const std::vector<double> before = one.rows;
  EXPECT_EQ(one.adopt(0).candidates, 0);
  EXPECT_EQ(one.rows, before);
  // Nor is there anything where the intermediate is not quantized.
  one.layer.a2Scaling = {};
  EXPECT_EQ(one.adopt().candidates, 0);
  EXPECT_EQ(one.rows, before);
}

TEST(Rounding, AStepOfAnotherValueStays) {
  // A whole step of a value far from a boundary: the size of what is adopted,
  // but along a column that no open rounding has.
  Case one(40);
  one.adopt();
  ASSERT_TRUE(one.check().passed);
  const std::vector<double> settled = one.rows;
  std::vector<char> bytes;
  std::vector<double> values;
  const int64_t token = one.list[7];
  const int64_t expert = one.routing.ids[token * one.layer.topK];
  double norm2 = 0, move2 = 0;
  std::vector<double> move(one.layer.hidden);
  for (int64_t n = 0; n < one.layer.hidden; ++n) {
    readRows(one.inputs.w2, expert, one.layer.hidden, one.layer.intermediate, n,
             1, bytes, values);
    dequantize(scalesOfW2(one.layer, one.inputs), expert, n,
               one.layer.intermediate, bytes, values);
    move[n] = values[100];
    norm2 += std::pow(settled[token * one.layer.hidden + n], 2);
    move2 += move[n] * move[n];
  }
  for (int64_t n = 0; n < one.layer.hidden; ++n)
    one.out[token * one.layer.hidden + n] +=
        float(0.02 * std::sqrt(norm2 / move2) * move[n]);
  one.adopt();
  const Report report = one.check();
  EXPECT_FALSE(report.passed);
  EXPECT_EQ(report.worstRowToken, token);
}

TEST(Rounding, ErrorsInOtherDirectionsStay) {
  Case one(100);
  const double size = 1.02 * kRowFactor * kBound;
  for (size_t i = 0; i < one.rows.size(); i += one.layer.hidden) {
    double norm2 = 0;
    for (int64_t n = 0; n < one.layer.hidden; ++n)
      norm2 += std::pow(one.rows[i + n], 2);
    const double each = size * std::sqrt(norm2 / one.layer.hidden);
    for (int64_t n = 0; n < one.layer.hidden; ++n)
      one.out[i + n] +=
          float(each * (randomBits(9, Stream::Other, i + n) & 1 ? 1 : -1));
  }
  one.adopt();
  const Report report = one.check();
  EXPECT_FALSE(report.passed);
  EXPECT_GT(report.whole, 0.9 * size) << "of the error nearly all is left";
}

TEST(Rounding, AWrongScaleStays) {
  // The output of a kernel that took the weight scales of the next rows.
  Case one(60, 128);
  const Case right = one;
  one.inputs.w13Scale.read = [&](int64_t expert, int64_t row, int64_t rows,
                                 void *to) {
    const int64_t all = one.layer.w13ScaleRows();
    for (int64_t i = 0; i < rows; ++i)
      right.inputs.w13Scale.read(expert, (row + i + 1) % all, 1,
                                 static_cast<float *>(to) +
                                     i * one.layer.w13ScaleColumns());
  };
  one.run();
  one.inputs = right.inputs;
  one.adopt();
  const Report report = one.check();
  EXPECT_FALSE(report.passed);
  EXPECT_GT(report.whole, 10 * kBound);
}

TEST(Rounding, NanStaysAndRowsMustFit) {
  Case one(5);
  one.out[300] = std::nanf("");
  one.adopt();
  EXPECT_EQ(one.check().notFinite, 1);
  one.rows.pop_back();
  auto adopted = adoptRoundings(
      one.layer, one.inputs, one.routing, one.list, kNativeE4m3Error, kBound,
      one.out.data(), *one.layer.outputType, one.layer.hidden, one.rows);
  ASSERT_FALSE(adopted);
  EXPECT_EQ(adopted.error().message,
            "5 tokens of 256 columns need 1280 values of the reference, not "
            "1279");
}

//===----------------------------------------------------------------------===//
// The stated error
//===----------------------------------------------------------------------===//

/// A sum of products as the tensor core of sm_90 makes it: 32 at a time and the
/// sum so far, each cut to 13 bits behind the leading one of the largest.
double nativeSum(const std::vector<double> &a, const std::vector<double> &b,
                 int64_t first, int64_t last) {
  constexpr int kBits = 13;
  constexpr int64_t kStep = 32;
  double sum = 0;
  for (int64_t k = first; k < last; k += kStep) {
    int top = sum == 0 ? -1000 : std::ilogb(sum);
    for (int64_t i = k; i < k + kStep; ++i)
      if (a[i] * b[i] != 0)
        top = std::max(top, std::ilogb(a[i]) + std::ilogb(b[i]));
    const double unit = std::ldexp(1.0, top - kBits);
    double units = std::trunc(sum / unit);
    for (int64_t i = k; i < k + kStep; ++i)
      units += std::trunc(a[i] * b[i] / unit);
    sum = units * unit;
  }
  return sum;
}

TEST(Rounding, TheStatedErrorIsThatOfTheTensorCore) {
  const Element &e4m3 = *findElement("f8E4M3FN");
  uint64_t draw = 0;
  for (int64_t length : {128, 2048}) {
    const int64_t count = 2000 * 128 / length * (length > 128 ? 4 : 1);
    double squares = 0, worst = 0;
    int64_t beyond = 0;
    std::vector<double> a(length), b(length);
    for (int64_t sample = 0; sample < count; ++sample) {
      double exact = 0, promoted = 0, norm2 = 0;
      for (int64_t i = 0; i < length; ++i) {
        a[i] = roundTo(e4m3, 110 * randomNormal(1, Stream::X, ++draw));
        b[i] = roundTo(e4m3, 64 * randomNormal(1, Stream::W13, draw));
        exact += a[i] * b[i];
        norm2 += a[i] * a[i] * b[i] * b[i];
      }
      for (int64_t k = 0; k < length; k += 128)
        promoted += nativeSum(a, b, k, k + 128);
      const double error = std::fabs(promoted - exact) / std::sqrt(norm2);
      squares += error * error;
      worst = std::max(worst, error);
      beyond += error > kNativeE4m3Error;
    }
    EXPECT_NEAR(std::sqrt(squares / double(count)),
                kNativeE4m3Error / kDeviations, 2e-5);
    EXPECT_LE(beyond, count / 500) << "of sums of " << length << ", " << worst;
  }
}

} // namespace
