//===- LaunchTest.cpp - tensor maps without a GPU -------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The arguments that cuTensorMapEncodeTiled gets.
//
//===----------------------------------------------------------------------===//

#include "runtime/cuda/TensorMaps.h"

#include <gtest/gtest.h>

#include <limits>

using namespace moec;
using namespace moec::runtime;

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

/// The rules of cuTensorMapEncodeTiled at their borders.
TEST(TensorMaps, Borders) {
  Symbols symbols;
  symbols.tokens = 300;
  const auto isTaken = [&](auto change) {
    TensorMap map = weightMap();
    change(map);
    return bool(shapeOf(map, symbols));
  };
  const int64_t extents = int64_t(1) << 32, strides = int64_t(1) << 40;
  for (const int64_t stride : {int64_t(16), int64_t(48), strides - 16})
    EXPECT_TRUE(isTaken([&](TensorMap &m) {
      m.strides = {Expression(stride)};
    })) << stride;
  for (const int64_t stride : {int64_t(0), int64_t(-16), int64_t(8),
                               int64_t(24), int64_t(1528), strides})
    EXPECT_FALSE(isTaken([&](TensorMap &m) {
      m.strides = {Expression(stride)};
    })) << stride;
  for (const auto &[extent, taken] : {std::pair(int64_t(1), true),
                                      {extents, true},
                                      {extents + 1, false},
                                      {int64_t(0), false},
                                      {int64_t(-1), false}})
    for (const size_t i : {0, 1})
      EXPECT_EQ(
          isTaken([&](TensorMap &m) { m.extents[i] = Expression(extent); }),
          taken)
          << extent;
  for (const auto &[extent, taken] :
       {std::pair(1, true), {256, true}, {257, false}, {0, false}})
    EXPECT_EQ(isTaken([&](TensorMap &m) { m.box[1] = extent; }), taken)
        << extent;
  for (const auto &[stride, taken] :
       {std::pair(1, true), {8, true}, {9, false}, {0, false}})
    EXPECT_EQ(isTaken([&](TensorMap &m) { m.elementStrides[1] = stride; }),
              taken)
        << stride;
}
