//===- WeightScalingTest.cpp - float weights to codes and scales ----------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The rules of the templates (compiled for the host) and those of the host
// device make the same bits: scales of many sizes, and codes of every half and
// of every tie.
//
//===----------------------------------------------------------------------===//

#include "runtime/host/WeightRules.h"
#include "test/templates/DeviceFunctions.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <random>

#include "templates/moe/quant/weight_scaling.cuh"

using namespace moec;

namespace {

template <class T> std::byte bytesOf(T value, size_t i) {
  std::byte bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  return bytes[i];
}

struct Names {
  const char *element, *scale;
  int64_t rows, columns;
  const char *rule = "";
};

template <class Code, class Scale, class Rule, moe::quant::Shares kShares,
          bool kZeroPoints = false>
void compare(const Names &names) {
  using Scaling =
      moe::quant::WeightScaling<Code, Scale, Rule, kShares, kZeroPoints>;
  host::WeightFormat format;
  format.element = names.element;
  format.scale = names.scale;
  format.groupRows = names.rows, format.groupColumns = names.columns;
  format.second = Scaling::kTwoLevels;
  format.zeroPoint = kZeroPoints;
  format.scaleRule = names.rule;
  const Result<host::WeightRules> rules = host::WeightRules::of(format);
  ASSERT_TRUE(bool(rules)) << rules.error().message;
  std::mt19937 random(7);
  std::uniform_real_distribution<float> exponents(-40, 30), part(-1, 1);
  std::vector<float> sizes = {0,   1e-10f, 1e-30f, 1e-38f, 448,   28, 7.5f, 6,
                              127, 57344,  3e38f,  0.5f,   1e-3f, 3,  4096};
  for (int i = 0; i < 500; ++i)
    sizes.push_back(std::exp2(exponents(random)));
  for (float size : sizes) {
    host::WeightRange range;
    moe::quant::Range onDevice;
    for (float value : {size * part(random), -size, size * part(random)}) {
      range.take(value);
      onDevice.least = std::min(onDevice.least, value);
      onDevice.most = std::max(onDevice.most, value);
    }
    const float all = std::min(size, 1e38f) * 3;
    const float second = Scaling::kTwoLevels ? Scaling::second(all) : 1;
    if (Scaling::kTwoLevels) {
      EXPECT_EQ(second, rules->secondScale(all));
    }
    const Scale scale = Scaling::scale(onDevice, second);
    std::byte stored[4] = {};
    rules->storeScale(range, second, stored);
    for (size_t i = 0; i < sizeof(Scale); ++i)
      ASSERT_EQ(stored[i], bytesOf(scale, i)) << size;
    const float factor = Scaling::factor(scale, second);
    ASSERT_EQ(factor, rules->factor(stored, second)) << size;
    const int zero = kZeroPoints ? Scaling::zeroPoint(onDevice, factor) : 0;
    if (kZeroPoints) {
      ASSERT_EQ(zero, int(rules->zeroPoint(range, factor))) << size;
    }
    for (int i = 0; i < 64; ++i) {
      // Halves of steps are ties of many types.
      const float value = i % 2 ? size * part(random)
                                : factor * std::round(part(random) * 40) / 4;
      ASSERT_EQ(Scaling::code(value, factor, zero),
                unsigned(rules->code(value, factor, uint8_t(zero))))
          << size << " " << value;
    }
  }
  // Every half, and the middles of codes' numbers.
  for (unsigned bits = 0; bits < 1u << 16; ++bits) {
    const float value = host::fromF16(uint16_t(bits));
    if (std::isfinite(value)) {
      ASSERT_EQ(Scaling::code(value, 1, 8), unsigned(rules->code(value, 1, 8)))
          << value;
    }
  }
}

TEST(WeightScaling, ScalesOfBlocksChannelsAndTensors) {
  using enum moe::quant::Shares;
  using moe::quant::Ceil;
  compare<moe::e4m3, float, Ceil, Group>({"f8E4M3FN", "f32", 128, 128});
  compare<moe::e4m3, float, Ceil, Channel>({"f8E4M3FN", "f32", 1, -1});
  compare<moe::e4m3, float, Ceil, Tensor>({"f8E4M3FN", "f32", -1, -1});
  compare<moe::e5m2, float, Ceil, Channel>({"f8E5M2", "f32", 1, -1});
  compare<moe::i8, float, Ceil, Channel>({"i8", "f32", 1, -1});
  compare<moe::i8, float, Ceil, Tensor>({"i8", "f32", -1, -1});
  compare<moe::i8, moe::bf16, Ceil, Channel>({"i8", "bf16", 1, -1});
}

TEST(WeightScaling, CodesOfFourBits) {
  using enum moe::quant::Shares;
  using moe::quant::Ceil;
  compare<moe::i4, moe::bf16, Ceil, Group>({"i4", "bf16", 1, 128});
  compare<moe::i4, moe::f16, Ceil, Group>({"i4", "f16", 1, 32});
  compare<moe::i4, moe::bf16, Ceil, Group, true>({"i4", "bf16", 1, 128});
  compare<moe::i4, moe::f16, Ceil, Group, true>({"i4", "f16", 1, 64});
  compare<moe::e2m1, moe::e4m3, moe::quant::Even, Group>(
      {"f4E2M1FN", "f8E4M3FN", 1, 16});
}

TEST(WeightScaling, PowersOfTwo) {
  using enum moe::quant::Shares;
  using moe::quant::Ceil;
  using moe::quant::Even;
  using moe::quant::Floor;
  compare<moe::e2m1, moe::ue8m0, Even, Group>({"f4E2M1FN", "f8E8M0FNU", 1, 32});
  compare<moe::e2m1, moe::ue8m0, Floor, Group>(
      {"f4E2M1FN", "f8E8M0FNU", 1, 32, "floor"});
  compare<moe::e4m3, moe::ue8m0, Ceil, Group>(
      {"f8E4M3FN", "f8E8M0FNU", 128, 128});
  compare<moe::e3m2, moe::ue8m0, Ceil, Group>({"f6E3M2FN", "f8E8M0FNU", 1, 32});
  compare<moe::e2m3, moe::ue8m0, Ceil, Group>({"f6E2M3FN", "f8E8M0FNU", 1, 32});
}

} // namespace
