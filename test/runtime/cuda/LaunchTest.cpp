//===- LaunchTest.cpp - constants and tensor maps without a GPU -----------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rounding of constants, and the arguments that cuTensorMapEncodeTiled gets.
//
//===----------------------------------------------------------------------===//

#include "runtime/cuda/Constants.h"
#include "runtime/cuda/TensorMaps.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

using namespace moec;
using namespace moec::runtime;

TEST(Constants, Bf16) {
  EXPECT_EQ(toBf16(1.0f), 0x3f80);
  EXPECT_EQ(toBf16(-2.0f), 0xc000);
  EXPECT_EQ(toBf16(1.00390625f), 0x3f80); // a tie goes to even
  EXPECT_EQ(toBf16(1.01171875f), 0x3f82);
  EXPECT_EQ(toBf16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(toBf16(std::numeric_limits<float>::infinity()), 0x7f80);
  EXPECT_GT(toBf16(std::numeric_limits<float>::quiet_NaN()) & 0x7fff, 0x7f80);
}

/// A half's value, for comparing.
static double fromF16(uint16_t bits) {
  int exponent = (bits >> 10) & 31, fraction = bits & 1023;
  double magnitude = exponent == 0 ? std::ldexp(fraction, -24)
                                   : std::ldexp(1024 + fraction, exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

TEST(Constants, F16) {
  EXPECT_EQ(toF16(0.0f), 0);
  EXPECT_EQ(toF16(-0.0f), 0x8000);
  EXPECT_EQ(toF16(1.0f), 0x3c00);
  EXPECT_EQ(toF16(65504.0f), 0x7bff);
  EXPECT_EQ(toF16(65519.0f), 0x7bff);
  EXPECT_EQ(toF16(65520.0f), 0x7c00);
  EXPECT_EQ(toF16(-1e30f), 0xfc00);
  EXPECT_EQ(toF16(std::ldexp(1.0f, -24)), 1);
  EXPECT_EQ(toF16(std::ldexp(1.0f, -25)), 0); // a tie goes to even
  EXPECT_EQ(toF16(std::ldexp(1.5f, -24)), 2);
  // Every half is a float that rounds to itself.
  for (uint32_t bits = 0; bits < 0x7c00; ++bits)
    ASSERT_EQ(toF16(static_cast<float>(fromF16(static_cast<uint16_t>(bits)))),
              bits);
  // What lies between two halves goes to the nearer one.
  for (uint32_t bits = 0; bits < 0x7bff; ++bits) {
    double low = fromF16(static_cast<uint16_t>(bits));
    double high = fromF16(static_cast<uint16_t>(bits + 1));
    auto at = [&](double part) {
      return toF16(static_cast<float>(low + (high - low) * part));
    };
    ASSERT_EQ(at(0.25), bits);
    ASSERT_EQ(at(0.75), bits + 1);
    ASSERT_EQ(at(0.5), bits % 2 == 0 ? bits : bits + 1);
  }
}

TEST(Constants, Bytes) {
  Value value;
  value.name = "table";
  value.elementTypes = {"i32"};
  value.data = {1, -2};
  auto bytes = encodeConstant(value);
  ASSERT_TRUE(bytes);
  EXPECT_EQ(*bytes, std::string("\1\0\0\0\xfe\xff\xff\xff", 8));
  value.elementTypes = {"f4E2M1FN"};
  bytes = encodeConstant(value);
  ASSERT_FALSE(bytes);
  EXPECT_EQ(bytes.error().message,
            "constant table has element type 'f4E2M1FN'; constants may be f32, "
            "f16, bf16, i64, i32, i16 or i8");
}

static TensorMap weightMap() {
  TensorMap map;
  map.name = "w2_map";
  map.value = "w2";
  map.elementType = "bf16";
  map.extents = {Expression(768), Expression::symbol("tokens")};
  map.strides = {Expression(1536)};
  map.box = {64, 128};
  map.elementStrides = {1, 1};
  map.interleave = "none";
  map.swizzle = "128b";
  map.l2Promotion = "256b";
  map.outOfBoundsFill = "zeros";
  return map;
}

TEST(TensorMaps, Arguments) {
  Symbols symbols;
  symbols.tokens = 300;
  auto shape = shapeOf(weightMap(), symbols);
  ASSERT_TRUE(shape) << shape.error().message;
  EXPECT_EQ(shape->dataType, 9);
  EXPECT_EQ(shape->rank, 2u);
  EXPECT_EQ(shape->extents[0], 768u);
  EXPECT_EQ(shape->extents[1], 300u);
  EXPECT_EQ(shape->strides[0], 1536u);
  EXPECT_EQ(shape->box[1], 128u);
  EXPECT_EQ(shape->swizzle, 3);
  EXPECT_EQ(shape->l2Promotion, 3);
}

TEST(TensorMaps, Refusals) {
  Symbols symbols;
  symbols.tokens = 300;
  auto message = [&](auto change) {
    TensorMap map = weightMap();
    change(map);
    auto shape = shapeOf(map, symbols);
    EXPECT_FALSE(shape);
    return shape ? "" : shape.error().message;
  };
  EXPECT_EQ(message([](TensorMap &map) { map.swizzle = "96b"; }),
            "tensor map w2_map: swizzle is '96b', expected one of none, 32b, "
            "64b, 128b");
  EXPECT_EQ(message([](TensorMap &map) { map.box[0] = 257; }),
            "tensor map w2_map: box extent 0 is 257, expected 1 to 256");
  EXPECT_EQ(message([](TensorMap &map) { map.strides[0] = Expression(24); }),
            "tensor map w2_map: stride 1 is 24 bytes, expected a multiple of "
            "16 below 2^40");
  EXPECT_EQ(message([](TensorMap &map) { map.strides.clear(); }),
            "tensor map w2_map: has 0 strides, 2 box extents and 2 element "
            "strides, expected 1, 2 and 2 for 2 dimensions");
  EXPECT_EQ(message([](TensorMap &map) { map.extents[1] = Expression(0); }),
            "tensor map w2_map: extent 1 is 0, expected 1 to 2^32");
}
