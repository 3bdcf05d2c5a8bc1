//===- RandomDataTest.cpp - what weights and inputs are filled with -------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Distributions, types that have no random data, and buffers that are longer
// than a block.
//
//===----------------------------------------------------------------------===//

#include "bench/program/RandomData.h"
#include "test/reference/Element.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

using namespace moec;
using namespace moec::bench;
using tools::Buffer;
using tools::Device;

namespace {

struct Moments {
  double mean = 0, deviation = 0, least = 1e300, most = -1e300;
};

Moments momentsOf(const std::string &type, const std::vector<char> &data) {
  const reference::Element &element = *reference::findElement(type);
  const int64_t count = int64_t(data.size()) / element.bytes;
  Moments moments;
  double squares = 0;
  for (int64_t i = 0; i < count; ++i) {
    double value = reference::load(element, data.data(), i);
    moments.mean += value / double(count);
    squares += value * value / double(count);
    moments.least = std::min(moments.least, value);
    moments.most = std::max(moments.most, value);
  }
  moments.deviation = std::sqrt(squares - moments.mean * moments.mean);
  return moments;
}

TEST(BenchRandomData, Distributions) {
  constexpr int64_t kCount = 200'003;
  auto moments = [](Kind kind, const std::string &type) {
    Result<std::vector<char>> data = randomElements(type, kCount, kind, 1);
    EXPECT_TRUE(data);
    return momentsOf(type, *data);
  };
  Moments input = moments(Kind::Input, "bf16");
  EXPECT_NEAR(input.mean, 0, 0.02);
  EXPECT_NEAR(input.deviation, 1, 0.02);
  EXPECT_NEAR(moments(Kind::Weight, "f16").deviation, 0.02, 0.0005);
  // A scale of 0 or below would make another work of it.
  Moments scale = moments(Kind::WeightScale, "f32");
  EXPECT_GE(scale.least, 0.9e-4);
  EXPECT_LE(scale.most, 3.1e-4);
  EXPECT_GT(moments(Kind::WeightScale, "f8E8M0FNU").least, 0);
  EXPECT_NEAR(moments(Kind::WeightScale, "f8E4M3FN").mean, 1, 0.02);
}

TEST(BenchRandomData, EightBitWeightsUseTheirRangeAndAreNumbers) {
  Result<std::vector<char>> data =
      randomElements("f8E4M3FN", 200'003, Kind::Weight, 1);
  ASSERT_TRUE(data) << data.error().message;
  Moments moments = momentsOf("f8E4M3FN", *data);
  EXPECT_NEAR(moments.mean, 0, 2);
  EXPECT_NEAR(moments.deviation, 100, 2);
  EXPECT_GE(moments.least, -448);
  EXPECT_LE(moments.most, 448);
}

TEST(BenchRandomData, KindsByName) {
  EXPECT_EQ(kindOfWeight("w13"), Kind::Weight);
  EXPECT_EQ(kindOfWeight("b2"), Kind::Weight);
  EXPECT_EQ(kindOfWeight("w13_scale"), Kind::WeightScale);
  EXPECT_EQ(kindOfWeight("a1_scale"), Kind::InputScale);
}

TEST(BenchRandomData, IntegersAreRefused) {
  Result<std::vector<char>> data = randomElements("i32", 4, Kind::Weight, 1);
  ASSERT_FALSE(data);
  EXPECT_EQ(data.error().message,
            "no random data for element type 'i32': expected a float");
}

TEST(BenchRandomData, CodesAreAnyBits) {
  Result<Device> device = Device::open(runtime::DeviceKind::Host);
  ASSERT_TRUE(device);
  RandomData random(*device, 1);
  for (const char *type : {"i4", "i8", "f4E2M1FN", "f6E3M2FN"}) {
    Result<Buffer> codes = device->allocate(1 << 16);
    ASSERT_TRUE(codes && random.fill(*codes, type, Kind::Weight, 1)) << type;
    const auto *bytes = static_cast<const unsigned char *>(codes->data());
    EXPECT_EQ(std::set<unsigned>(bytes, bytes + (1 << 16)).size(), 256U)
        << type;
  }
}

TEST(BenchRandomData, FillsBuffersLongerThanABlock) {
  Result<Device> device = Device::open(runtime::DeviceKind::Host);
  ASSERT_TRUE(device);
  RandomData random(*device, 1);
  const int64_t bytes = (int64_t(5) << 19) + 6;
  Result<Buffer> one = device->allocate(bytes), two = device->allocate(bytes);
  ASSERT_TRUE(one && two);
  ASSERT_TRUE(random.fill(*one, "bf16", Kind::Weight, 1));
  ASSERT_TRUE(random.fill(*two, "bf16", Kind::Weight, 2));
  const auto *first = static_cast<const char *>(one->data());
  const auto *second = static_cast<const char *>(two->data());
  const std::vector<char> all(first, first + bytes);
  EXPECT_NEAR(momentsOf("bf16", all).deviation, 0.02, 0.0005);
  EXPECT_NE(all, std::vector<char>(second, second + bytes));
}

} // namespace
