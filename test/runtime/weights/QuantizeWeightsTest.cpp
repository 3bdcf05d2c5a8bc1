//===- QuantizeWeightsTest.cpp - rules of quantized weights ---------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ends of ranges, ties and zeros; random matrices of every scheme are compared
// with a second program's in test/conformance/checkpoints.py.
//
//===----------------------------------------------------------------------===//

#include "runtime/weights/QuantizeWeights.h"
#include "runtime/host/Element.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace moec;
using namespace moec::weights;

namespace {

WeightFormat formatOf(const char *element, const char *scale, int64_t columns) {
  WeightFormat made;
  made.element = element;
  made.scale = scale;
  made.groupRows = 1;
  made.groupColumns = columns;
  return made;
}

std::vector<int> codesOf(const std::vector<float> &data,
                         const WeightFormat &format) {
  Result<QuantizedMatrix> made =
      quantizeMatrix(data, 1, int64_t(data.size()), format);
  EXPECT_TRUE(made) << made.error().message;
  std::vector<int> codes;
  for (std::byte code : made->codes)
    codes.push_back(std::to_integer<int>(code));
  return codes;
}

} // namespace

TEST(QuantizeWeights, EveryCodeStaysItself) {
  for (const char *element :
       {"f8E4M3FN", "f8E5M2", "f6E3M2FN", "f6E2M3FN", "f4E2M1FN"}) {
    const host::Storage storage = host::storageOf(element);
    const int64_t bits = host::storageBits(storage);
    std::vector<float> values;
    std::vector<unsigned> expected;
    for (unsigned code = 0; code < 1u << bits; ++code)
      if (float value = host::fromCode(storage, uint8_t(code));
          std::isfinite(value)) {
        values.push_back(value);
        expected.push_back(code);
      }
    while (values.size() % 4 != 0) {
      values.push_back(0);
      expected.push_back(0);
    }
    // The largest number is there: the scale is 1.
    Result<QuantizedMatrix> made =
        quantizeMatrix(values, 1, int64_t(values.size()),
                       formatOf(element, "f32", int64_t(values.size())));
    ASSERT_TRUE(made) << made.error().message;
    std::vector<float> back(values.size());
    host::loadFloats(storage, made->codes.data(), int64_t(back.size()),
                     back.data());
    EXPECT_EQ(back, values) << element;
  }
}

TEST(QuantizeWeights, TiesAreEven) {
  // 1.25 lies between 1 and 1.5, 2.5 between 2 and 3, 5 between 4 and 6.
  EXPECT_EQ(codesOf({6, 1.25, 2.5, 5, -0.25, -0.75, 0, 0.75},
                    formatOf("f4E2M1FN", "f32", 8)),
            (std::vector<int>{0x27, 0x64, 0xA8, 0x20}));
  EXPECT_EQ(codesOf({7, -7, 0.5, 1.5}, formatOf("i4", "f32", 4)),
            (std::vector<int>{0x1F, 0xA8}));
}

TEST(QuantizeWeights, Zeros) {
  for (const char *scale : {"f32", "f8E8M0FNU"})
    EXPECT_EQ(codesOf({0, 0, 0, 0}, formatOf("f4E2M1FN", scale, 4)),
              (std::vector<int>{0, 0}));
  EXPECT_EQ(codesOf({0, 0, 0, 0}, formatOf("i4", "bf16", 4)),
            (std::vector<int>{0x88, 0x88}));
  WeightFormat second = formatOf("f4E2M1FN", "f8E4M3FN", 2);
  second.second = true;
  // The second group is too small for a scale.
  EXPECT_EQ(codesOf({6, 6, 1e-9f, 0}, second), (std::vector<int>{0x77, 0}));
}

TEST(QuantizeWeights, PowersOfTwo) {
  const auto scaleOf = [](const char *element, const char *rule, float amax) {
    WeightFormat format = formatOf(element, "f8E8M0FNU", 2);
    format.scaleRule = rule;
    Result<QuantizedMatrix> made =
        quantizeMatrix(std::vector<float>{amax, 0}, 1, 2, format);
    return std::to_integer<int>(made->scales[0]) - 127;
  };
  EXPECT_EQ(scaleOf("f4E2M1FN", "", 6), 0);
  EXPECT_EQ(scaleOf("f4E2M1FN", "", 6.99f), 0); // saturates
  EXPECT_EQ(scaleOf("f4E2M1FN", "", 7), 1);
  EXPECT_EQ(scaleOf("f4E2M1FN", "ceil", 6.01f), 1);
  EXPECT_EQ(scaleOf("f4E2M1FN", "floor", 7.9f), 0);
  EXPECT_EQ(scaleOf("f8E4M3FN", "", 448), 0);
  EXPECT_EQ(scaleOf("f8E4M3FN", "", 449), 1);
  EXPECT_EQ(scaleOf("f8E4M3FN", "", 1e-38f), -127 + 0);
}

TEST(QuantizeWeights, Refused) {
  const auto errorOf = [](const WeightFormat &format, int64_t columns) {
    Result<QuantizedMatrix> made =
        quantizeMatrix(std::vector<float>(size_t(columns)), 1, columns, format);
    return made ? "made" : made.error().message;
  };
  EXPECT_EQ(errorOf(formatOf("i8", "f8E8M0FNU", 4), 4),
            "no rule makes i8 with scales of f8E8M0FNU; accepted: f8, f6 and "
            "f4 types, i8 and i4, with scales of f32, f16 or bf16, floats also "
            "with those of f8E8M0FNU, or of f8E4M3FN below one of f32, i4 also "
            "with zero points");
  EXPECT_EQ(errorOf(formatOf("i4", "f32", 3), 3),
            "3 columns of i4 do not fill whole bytes");
}
