//===- WeightScalingTest.cpp - float weights to codes and scales ----------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The rules of the kernels, by the words of a layer, make the bits of the
// reference: scales and codes of groups of many sizes.
//
//===----------------------------------------------------------------------===//

#include "runtime/host/WeightRules.h"
#include "test/reference/QuantizeWeights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <random>

using namespace moec;

namespace {

constexpr int64_t kNumbers = 64;

struct Kind {
  const char *element, *scale;
  int64_t rows, columns;
  bool zeroPoint = false;

  bool second() const { return std::string_view(scale) == "f8E4M3FN"; }
  host::WeightFormat format() const {
    host::WeightFormat made;
    made.element = element, made.scale = scale;
    made.groupRows = rows, made.groupColumns = columns;
    made.second = second(), made.zeroPoint = zeroPoint;
    return made;
  }
  /// A layer whose second weight is one row, and all of it one group.
  reference::Layer layer() const {
    reference::Layer made;
    made.hidden = 1, made.intermediate = kNumbers;
    made.storedWeightType = reference::findElement("f32");
    made.weightType = reference::findElement(element);
    made.w2Scaling.given = true;
    made.w2Scaling.rows = rows;
    made.w2Scaling.columns = columns == -1 ? -1 : kNumbers;
    made.w2Scaling.scaleType = reference::findElement(scale);
    made.w2Scaling.second = second(), made.w2Scaling.zeroPoint = zeroPoint;
    return made;
  }
};

/// Code `i` of those that lie one behind the other.
unsigned codeAt(const std::vector<std::byte> &codes, int64_t bits, int64_t i) {
  unsigned code = 0;
  for (int64_t bit = 0; bit < bits; ++bit) {
    const int64_t at = i * bits + bit;
    code |= unsigned(codes[size_t(at / 8)] >> at % 8 & std::byte(1)) << bit;
  }
  return code;
}

void compare(const Kind &kind, const std::vector<float> &numbers) {
  const Result<host::WeightRules> rules = host::WeightRules::of(kind.format());
  ASSERT_TRUE(bool(rules)) << rules.error().message;
  const reference::QuantizedWeight expected =
      reference::quantizeWeight(kind.layer(), false, numbers.data());
  host::WeightRange range;
  for (float number : numbers)
    range.take(number);
  float second = 1;
  if (kind.second()) {
    second = rules->secondScale(range.largest());
    float stored = 0;
    std::memcpy(&stored, expected.secondScales.data(), sizeof(stored));
    ASSERT_EQ(second, stored) << range.largest();
  }
  std::vector<std::byte> scale(expected.scales.size());
  rules->storeScale(range, second, scale.data());
  ASSERT_EQ(scale, expected.scales) << range.largest();
  const float factor = rules->factor(scale.data(), second);
  uint8_t zero = 0;
  if (kind.zeroPoint) {
    zero = rules->zeroPoint(range, factor);
    ASSERT_EQ(std::byte(zero), expected.zeroPoints.at(0)) << range.largest();
  }
  for (int64_t i = 0; i < kNumbers; ++i)
    ASSERT_EQ(unsigned(rules->code(numbers[size_t(i)], factor, zero)),
              codeAt(expected.codes, host::storageBits(rules->codes()), i))
        << kind.element << " of " << range.largest() << ": "
        << numbers[size_t(i)];
}

void compareSizes(const Kind &kind) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> exponents(-40, 30), part(-1, 1);
  std::vector<float> sizes = {0,   1e-10f, 1e-30f, 1e-38f, 448,   28, 7.5f, 6,
                              127, 57344,  3e38f,  0.5f,   1e-3f, 3,  4096};
  for (int i = 0; i < 1000; ++i)
    sizes.push_back(std::exp2(exponents(random)));
  for (float size : sizes) {
    std::vector<float> numbers(kNumbers);
    for (size_t i = 0; i < numbers.size(); ++i)
      // 64ths of the largest are ties of many types.
      numbers[i] = i % 2 ? size * part(random)
                         : size * (std::round(part(random) * 64) / 64);
    numbers[5] = -size;
    numbers[6] = size * part(random) / 1024;
    compare(kind, numbers);
    if (testing::Test::HasFatalFailure())
      return;
  }
}

TEST(WeightScaling, ScalesOfBlocksChannelsAndTensors) {
  compareSizes({"f8E4M3FN", "f32", 128, 128});
  compareSizes({"f8E4M3FN", "f32", 1, -1});
  compareSizes({"f8E4M3FN", "f32", -1, -1});
  compareSizes({"f8E5M2", "f32", 1, -1});
  compareSizes({"i8", "f32", 1, -1});
  compareSizes({"i8", "f32", -1, -1});
  compareSizes({"i8", "bf16", 1, -1});
}

TEST(WeightScaling, CodesOfFourBits) {
  compareSizes({"i4", "bf16", 1, 64});
  compareSizes({"i4", "f16", 1, 64});
  compareSizes({"i4", "bf16", 1, 64, true});
  compareSizes({"i4", "f16", 1, 64, true});
  compareSizes({"f4E2M1FN", "f8E4M3FN", 1, 64});
}

TEST(WeightScaling, PowersOfTwo) {
  compareSizes({"f4E2M1FN", "f8E8M0FNU", 1, 64});
  compareSizes({"f8E4M3FN", "f8E8M0FNU", 128, 128});
  compareSizes({"f6E3M2FN", "f8E8M0FNU", 1, 64});
  compareSizes({"f6E2M3FN", "f8E8M0FNU", 1, 64});
}

} // namespace
