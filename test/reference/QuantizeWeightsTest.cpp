//===- QuantizeWeightsTest.cpp - float weights, by hand -------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Numbers whose codes can be said without a program, and where scales stand.
//
//===----------------------------------------------------------------------===//

#include "test/reference/QuantizeWeights.h"

#include <cstring>
#include <gtest/gtest.h>

namespace moec::reference {
namespace {

Layer quantizedLayer(const char *code, const char *scale, int64_t rows,
                     int64_t columns) {
  Layer layer;
  layer.hidden = 4;
  layer.intermediate = 2;
  layer.storedWeightType = findElement("f32");
  layer.weightType = findElement(code);
  layer.w1Scaling.given = layer.w2Scaling.given = true;
  layer.w1Scaling.rows = layer.w2Scaling.rows = rows;
  layer.w1Scaling.columns = layer.w2Scaling.columns = columns;
  layer.w1Scaling.scaleType = layer.w2Scaling.scaleType = findElement(scale);
  return layer;
}

template <typename T> std::vector<T> as(const std::vector<std::byte> &bytes) {
  std::vector<T> made(bytes.size() / sizeof(T));
  std::memcpy(made.data(), bytes.data(), bytes.size());
  return made;
}

// Gates 254 and 127, ups 63.5 and 0; a scale is as large as its row.
constexpr float kFloats[] = {254,   -254, 2, 127, 127, 1, -1, 0.5,
                             63.5f, 32,   0, -1,  0,   0, 0,  0};

TEST(QuantizeWeights, ChannelsOfBytes) {
  const Layer layer = quantizedLayer("i8", "f32", 1, -1);
  const QuantizedWeight made = quantizeWeight(layer, true, kFloats);
  EXPECT_EQ(as<int8_t>(made.codes),
            (std::vector<int8_t>{127, -127, 1, 64, 127, 1, -1, 0, 127, 64, 0,
                                 -2, 0, 0, 0, 0}));
  EXPECT_EQ(as<float>(made.scales),
            (std::vector<float>{2, 1, 0.5f, 1e-10f / 127}));
}

TEST(QuantizeWeights, PartsHaveScalesOfTheirOwn) {
  Layer layer = quantizedLayer("i8", "f32", -1, -1);
  EXPECT_EQ(as<float>(quantizeWeight(layer, true, kFloats).scales),
            (std::vector<float>{2, 0.5f}));
  // Row by row the second is the first up.
  layer.gateUpOrder = "interleaved";
  EXPECT_EQ(as<float>(quantizeWeight(layer, true, kFloats).scales),
            (std::vector<float>{2, 1}));
}

TEST(QuantizeWeights, ScalesOfScales) {
  Layer layer = quantizedLayer("f4E2M1FN", "f8E4M3FN", 1, 2);
  layer.gated = false;
  layer.w1Scaling.second = true;
  constexpr float kRows[] = {2688, -1344, 6, 3, 0, 0, 1e-9f, 0};
  const QuantizedWeight made = quantizeWeight(layer, true, kRows);
  EXPECT_EQ(as<float>(made.secondScales), (std::vector<float>{1}));
  // 448, 1, and what is too small.
  EXPECT_EQ(as<uint8_t>(made.scales), (std::vector<uint8_t>{0x7e, 0x38, 0, 0}));
  EXPECT_EQ(as<uint8_t>(made.codes), (std::vector<uint8_t>{0xd7, 0x57, 0, 0}));
}

TEST(QuantizeWeights, ZeroPoints) {
  Layer layer = quantizedLayer("i4", "f32", 1, -1);
  layer.gated = false;
  layer.w1Scaling.zeroPoint = true;
  constexpr float kRows[] = {-5, 10, 0, 2.4f, 3, 30, 0, 1};
  const QuantizedWeight made = quantizeWeight(layer, true, kRows);
  EXPECT_EQ(as<float>(made.scales), (std::vector<float>{1, 2}));
  EXPECT_EQ(as<int8_t>(made.zeroPoints), (std::vector<int8_t>{5, 0}));
  // 1.5 and 0.5 to even.
  EXPECT_EQ(as<uint8_t>(made.codes),
            (std::vector<uint8_t>{0xf0, 0x75, 0xf2, 0x00}));
}

} // namespace
} // namespace moec::reference
