//===- TestDataTest.cpp - the random data has the promised properties -----===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/reference/TestData.h"
#include "runtime/support/Progress.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

using namespace moec::reference;

namespace {

Layer smallLayer(const char *type) {
  Layer layer;
  layer.name = "small";
  layer.experts = layer.localExperts = 12;
  layer.topK = 3;
  layer.hidden = 64;
  layer.intermediate = 48;
  layer.inputType = layer.outputType = layer.a1 = layer.a2 = layer.weightType =
      findElement(type);
  layer.logitsType = findElement("f32");
  layer.score = "identity";
  layer.normalize = "softmax";
  layer.function = "silu";
  layer.hasBias = true;
  return layer;
}

double rms(const Element &element, const void *data, int64_t first,
           int64_t count) {
  double sum = 0;
  for (int64_t i = first; i < first + count; ++i)
    sum += std::pow(load(element, data, i), 2);
  return std::sqrt(sum / double(count));
}

TEST(TestData, NormalHasItsMoments) {
  double sum = 0, squares = 0;
  const int count = 200000;
  for (int i = 0; i < count; ++i) {
    const double value = randomNormal(3, Stream::X, i);
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / count, 0, 0.01);
  EXPECT_NEAR(squares / count, 1, 0.01);
}

TEST(TestData, SeedsAndStreamsDiffer) {
  EXPECT_NE(randomBits(1, Stream::X, 0), randomBits(2, Stream::X, 0));
  EXPECT_NE(randomBits(1, Stream::X, 0), randomBits(1, Stream::W2, 0));
  EXPECT_EQ(randomBits(1, Stream::X, 5), randomBits(1, Stream::X, 5));
}

TEST(TestData, AnyPartIsTheSameAsTheWhole) {
  const Layer layer = smallLayer("bf16");
  std::vector<uint16_t> whole(layer.gateUpRows() * layer.hidden), part(3 * 64);
  fillW13(layer, 5, 2, 0, layer.gateUpRows(), whole.data());
  makeW13(layer, 5).read(2, 40, 3, part.data());
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 40 * 64));
}

TEST(TestData, GateUpAndExpertsDifferInSize) {
  const Layer layer = smallLayer("bf16");
  std::vector<uint16_t> w13(layer.gateUpRows() * layer.hidden);
  std::set<double> sizes;
  for (int64_t expert = 0; expert < 4; ++expert) {
    fillW13(layer, 5, expert, 0, layer.gateUpRows(), w13.data());
    const double gate = rms(*layer.weightType, w13.data(), 0, 48 * 64);
    const double up = rms(*layer.weightType, w13.data(), 48 * 64, 48 * 64);
    EXPECT_NEAR(up / gate, 2, 0.2);
    sizes.insert(gate);
  }
  EXPECT_GT(*sizes.rbegin() / *sizes.begin(), 1.05);
}

TEST(TestData, TokenNormsSpanEightOctaves) {
  const Layer layer = smallLayer("f16");
  std::vector<uint16_t> x(200 * 72, 0xABCD);
  fillX(layer, 5, 0, 200, x.data(), 72);
  double least = 1e9, most = 0;
  for (int64_t m = 0; m < 200; ++m) {
    const double size = rms(*layer.inputType, x.data(), m * 72, 64);
    least = std::min(least, size);
    most = std::max(most, size);
    EXPECT_EQ(x[m * 72 + 64], 0xABCD) << "padding is not written";
  }
  EXPECT_GT(most / least, 128);
}

/// Between 2 and 64, whichever is larger.
static void expectUneven(float a, float b) {
  const float ratio = a > b ? a / b : b / a;
  EXPECT_GE(ratio, 2) << a << " " << b;
  EXPECT_LE(ratio, 64) << a << " " << b;
}

TEST(TestData, NeighbouringScalesDiffer) {
  Layer layer;
  layer.experts = layer.localExperts = 3;
  layer.hidden = 336;
  layer.intermediate = 208;
  layer.weightType = findElement("f8E4M3FN");
  layer.w1Scaling = layer.w2Scaling = {true, 128, 128, false};
  EXPECT_EQ(layer.w13ScaleRows(), 4);
  EXPECT_EQ(layer.w13ScaleColumns(), 3);
  EXPECT_EQ(layer.w2ScaleRows(), 3);
  EXPECT_EQ(layer.w2ScaleColumns(), 2);
  float scales[4][3], other[4][3];
  fillW13Scale(layer, 5, 1, 0, 4, scales);
  fillW13Scale(layer, 5, 1, 2, 2, other);
  EXPECT_EQ(other[0][1], scales[2][1]) << "rows are the same alone";
  for (int row = 0; row < 4; ++row)
    for (int column = 0; column < 2; ++column)
      expectUneven(scales[row][column], scales[row][column + 1]);
  // Gate and up differ by 2 besides.
  expectUneven(scales[0][0], scales[1][0]);
  expectUneven(scales[2][0], scales[3][0]);
  layer.w1Scaling = {true, -1, -1, false};
  EXPECT_EQ(layer.w13ScaleRows(), 2);
  layer.w1Scaling = {true, 1, -1, false};
  EXPECT_EQ(layer.w13ScaleRows(), 416);
  float given[3];
  fillA1Scale(layer, 5, 0, 0, 3, given);
  EXPECT_GT(given[1], 2 * given[0]);
  EXPECT_GT(given[1], 2 * given[2]);
}

TEST(TestData, BiasesAreNeverZero) {
  const Layer layer = smallLayer("bf16");
  std::vector<uint16_t> bias(layer.hidden);
  fillB2(layer, 5, 1, 0, layer.hidden, bias.data());
  for (int64_t i = 0; i < layer.hidden; ++i)
    EXPECT_GT(std::fabs(load(*layer.inputType, bias.data(), i)), 0.1);
}

Routing routed(const Layer &layer, std::string_view pattern, int64_t tokens,
               std::vector<float> &logits) {
  logits.resize(tokens * layer.experts);
  EXPECT_TRUE(fillLogits(layer, 5, pattern, 0, tokens, *layer.logitsType,
                         logits.data()));
  Inputs inputs;
  inputs.tokens = tokens;
  inputs.logits = {logits.data(), layer.logitsType, 0};
  return *route(layer, inputs);
}

TEST(TestData, PatternsDoWhatTheySay) {
  const Layer layer = smallLayer("f32");
  std::vector<float> logits;
  EXPECT_EQ(routed(layer, "one_expert", 100, logits).counts[4], 100);
  EXPECT_EQ(routed(layer, "empty_expert", 100, logits).counts[6], 0);
  const Routing skewed = routed(layer, "skewed", 1000, logits);
  EXPECT_GT(*std::max_element(skewed.counts.begin(), skewed.counts.end()), 700);
  routed(layer, "negative", 100, logits);
  EXPECT_LT(*std::max_element(logits.begin(), logits.end()), 0);
  routed(layer, "ties", 100, logits);
  EXPECT_LE(std::set<float>(logits.begin(), logits.end()).size(), 4u);
  const Routing wild = routed(layer, "nan_inf", 300, logits);
  EXPECT_GT(std::count_if(logits.begin(), logits.end(),
                          [](float x) { return std::isnan(x); }),
            10);
  for (float weight : wild.weights)
    EXPECT_TRUE(std::isfinite(weight));
  for (std::string_view pattern : routingPatterns()) {
    const Routing routing = routed(layer, pattern, 50, logits);
    EXPECT_EQ(std::accumulate(routing.counts.begin(), routing.counts.end(),
                              int64_t(0)),
              150);
  }
  std::vector<float> none(12);
  const auto unknown =
      fillLogits(layer, 5, "even", 0, 1, *layer.logitsType, none.data());
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().message,
            "unknown routing pattern 'even'; known are uniform, skewed, "
            "one_expert, empty_expert, ties, negative, nan_inf");
}

TEST(TestData, GivenIdsAreDistinct) {
  const Layer layer = smallLayer("f32");
  std::vector<int64_t> ids(500 * 3);
  std::vector<float> weights(500 * 3);
  std::vector<uint16_t> halves(500 * 3);
  std::vector<int32_t> narrow(500 * 3);
  const Element &f32 = *findElement("f32"), &f16 = *findElement("f16");
  fillGiven(layer, 5, 0, 500, *findElement("i64"), ids.data(), f32,
            weights.data());
  fillGiven(layer, 5, 0, 500, *findElement("i32"), narrow.data(), f16,
            halves.data());
  int64_t absent = 0;
  std::set<int64_t> outside, narrowOutside;
  for (int64_t m = 0; m < 500; ++m) {
    std::set<int64_t> seen;
    for (int64_t k = 0; k < 3; ++k) {
      const int64_t id = ids[m * 3 + k];
      const int64_t own = narrow[m * 3 + k];
      EXPECT_NEAR(load(f16, halves.data(), m * 3 + k), weights[m * 3 + k],
                  1e-3);
      if (id < 0 || id >= 12) {
        outside.insert(id);
        narrowOutside.insert(own);
        ++absent;
      } else {
        EXPECT_EQ(own, id);
        EXPECT_TRUE(seen.insert(id).second);
      }
    }
  }
  EXPECT_EQ(outside, (std::set<int64_t>{-12, -1, 12, (1LL << 32) + 11}));
  EXPECT_EQ(narrowOutside, (std::set<int64_t>{-12, -1, 12, 0x7fffffff}));
  EXPECT_GT(absent, 40);
  EXPECT_LT(absent, 200);
}

TEST(TestData, TokenIdsOfEitherWidth) {
  Layer layer = smallLayer("f32");
  layer.tableRows = 100;
  std::vector<int32_t> narrow(500);
  std::vector<int64_t> wide(500);
  fillTokenIds(layer, 5, 0, 500, *findElement("i32"), narrow.data());
  fillTokenIds(layer, 5, 0, 500, *findElement("i64"), wide.data());
  int64_t absent = 0, beyond = 0;
  for (size_t m = 0; m < 500; ++m) {
    ASSERT_GE(narrow[m], -1);
    ASSERT_LE(narrow[m], 100);
    EXPECT_EQ(int32_t(wide[m]), narrow[m]);
    absent += narrow[m] < 0 || narrow[m] == 100;
    beyond += wide[m] != narrow[m];
  }
  EXPECT_GT(absent, 10);
  EXPECT_GT(beyond, 10);
}

TEST(TestData, ParallelForVisitsEachOnce) {
  for (const auto &[threads, steps] :
       std::vector<std::pair<unsigned, int64_t>>{{0, 1},
                                                 {0, 1 << 20},
                                                 {1, 1 << 20},
                                                 {3, 1 << 20},
                                                 {64, 1000},
                                                 {64, 1 << 20}}) {
    std::vector<int> seen(1000);
    parallelFor(1000, steps, threads, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i)
        ++seen[i];
    });
    EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), 1000);
  }
}

TEST(TestData, ParallelForShowsProgress) {
  int64_t calls = 0, last = 0;
  moec::setProgressSink(
      [&](std::string_view what, int64_t done, int64_t total) {
        EXPECT_EQ(what, "rows made");
        EXPECT_EQ(total, 1000);
        ++calls, last = done;
      });
  std::vector<int> seen(1000);
  parallelFor("rows made", 1000, 1 << 20, 3, [&](int64_t first, int64_t end) {
    for (int64_t i = first; i < end; ++i)
      ++seen[i];
  });
  moec::setProgressSink({});
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), 1000);
  EXPECT_EQ(last, 1000);
  EXPECT_GT(calls, 100);
}

} // namespace
