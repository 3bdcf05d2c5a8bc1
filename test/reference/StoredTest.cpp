//===- StoredTest.cpp - weights as checkpoints store them -----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Words as AutoGPTQ, AutoAWQ and compressed-tensors write them, and the way
// back of each.
//
//===----------------------------------------------------------------------===//

#include "test/reference/Stored.h"

#include <gtest/gtest.h>

#include <cstring>

using namespace moec::reference;

namespace {

Layer layerOf(const char *element, const StoredTensor &weights,
              const StoredTensor &scales, const StoredTensor &zeroPoints) {
  Layer layer;
  layer.weightType = findElement(element);
  layer.storedWeights = weights;
  layer.storedScales = scales;
  layer.storedZeroPoints = zeroPoints;
  return layer;
}

const std::vector<int64_t> kAwq = {0, 4, 1, 5, 2, 6, 3, 7};

/// The stored form of `rows`, after they were found again.
template <typename To, typename From>
std::vector<To> stored(const Layer &layer, const char *name, int64_t rows,
                       int64_t columns, const char *element,
                       const std::vector<From> &from) {
  const StoredMatrix matrix =
      storedMatrix(layer, name, rows, columns, *findElement(element));
  EXPECT_EQ(matrix.rowsBytes(), int64_t(from.size() * sizeof(From)));
  std::vector<To> made(matrix.storedBytes() / sizeof(To));
  toStored(matrix, from.data(), made.data());
  std::vector<From> back(from.size());
  fromStored(matrix, made.data(), back.data());
  EXPECT_EQ(back, from);
  return made;
}

} // namespace

TEST(Stored, GptqHoldsEightColumnsOfARow) {
  const Layer layer = layerOf("i4", {true, "columns", {}, 0}, {true, "", {}, 0},
                              {true, "rows", {}, 1});
  // Two rows of 16: 0 to 15, and 15 to 0.
  const std::vector<uint8_t> codes = {0x10, 0x32, 0x54, 0x76, 0x98, 0xba,
                                      0xdc, 0xfe, 0xef, 0xcd, 0xab, 0x89,
                                      0x67, 0x45, 0x23, 0x01};
  EXPECT_EQ(
      stored<uint32_t>(layer, "w13", 2, 16, "i4", codes),
      (std::vector<uint32_t>{0x76543210, 0x89abcdef, 0xfedcba98, 0x01234567}));
  // Scales [2 rows, 3 groups] to [3, 2].
  EXPECT_EQ(stored<uint16_t>(layer, "w2_scale", 2, 3, "f16",
                             std::vector<uint16_t>{1, 2, 3, 4, 5, 6}),
            (std::vector<uint16_t>{1, 4, 2, 5, 3, 6}));
  // Zero points [8 rows, 2 groups], less by one: a word for each group.
  EXPECT_EQ(stored<uint32_t>(layer, "w13_zero_point", 8, 2, "i8",
                             std::vector<uint8_t>{8, 1, 9, 2, 10, 3, 11, 4, 12,
                                                  5, 13, 6, 14, 7, 15, 16}),
            (std::vector<uint32_t>{0xedcba987, 0xf6543210}));
  // Scales of scales are as they were.
  EXPECT_TRUE(storedMatrix(layer, "w13_second_scale", 2, 1, *findElement("f32"))
                  .how.isRows());
}

TEST(Stored, AwqHoldsEightRowsInItsOrder) {
  const Layer layer = layerOf("i4", {true, "rows", kAwq, 0}, {true, "", {}, 0},
                              {true, "rows", kAwq, 0});
  // Rows 0 to 7 of two columns: the row's number, and 8 more.
  const std::vector<uint8_t> codes = {0x80, 0x91, 0xa2, 0xb3,
                                      0xc4, 0xd5, 0xe6, 0xf7};
  EXPECT_EQ(stored<uint32_t>(layer, "w2", 8, 2, "i4", codes),
            (std::vector<uint32_t>{0x75316420, 0xfdb9eca8}));
  EXPECT_EQ(stored<uint32_t>(layer, "w2_zero_point", 8, 1, "i8",
                             std::vector<uint8_t>{0, 1, 2, 3, 4, 5, 6, 7}),
            (std::vector<uint32_t>{0x75316420}));
}

TEST(Stored, PackQuantizedHoldsColumnsAndRowsOfZeroPoints) {
  const Layer four =
      layerOf("i4", {false, "columns", {}, 0}, {}, {false, "rows", {}, 0});
  const std::vector<uint8_t> codes = {0x10, 0x32, 0x54, 0x76};
  EXPECT_EQ(stored<uint32_t>(four, "w13", 1, 8, "i4", codes),
            (std::vector<uint32_t>{0x76543210}));
  EXPECT_EQ(stored<uint32_t>(four, "w13_zero_point", 8, 2, "i8",
                             std::vector<uint8_t>{0, 8, 1, 9, 2, 10, 3, 11, 4,
                                                  12, 5, 13, 6, 14, 7, 15}),
            (std::vector<uint32_t>{0x76543210, 0xfedcba98}));
  // Codes of 8 bits have no sign: 128 is 0.
  const Layer eight =
      layerOf("i8", {false, "columns", {}, 0}, {}, {false, "rows", {}, 0});
  EXPECT_EQ(stored<uint32_t>(eight, "w2", 1, 4, "i8",
                             std::vector<int8_t>{0, 1, -1, -128}),
            (std::vector<uint32_t>{0x007f8180}));
}

TEST(Stored, ColumnsAreTransposed) {
  const Layer layer = layerOf("bf16", {true, "", {}, 0}, {}, {});
  EXPECT_EQ(stored<uint16_t>(layer, "w2", 2, 3, "bf16",
                             std::vector<uint16_t>{1, 2, 3, 4, 5, 6}),
            (std::vector<uint16_t>{1, 4, 2, 5, 3, 6}));
}

TEST(Stored, ScalesOf128x4LieInAtoms) {
  Layer layer = layerOf("f4E2M1FN", {}, {false, "", {}, 0, true}, {});
  // 130 rows of 5 scales: two atoms of rows by two of columns.
  constexpr int64_t kRows = 130, kColumns = 5;
  std::vector<uint8_t> scales(kRows * kColumns);
  for (size_t i = 0; i < scales.size(); ++i)
    scales[i] = uint8_t(i * 7 % 251);
  const StoredMatrix matrix = storedMatrix(layer, "w2_scale", kRows, kColumns,
                                           *findElement("f8E4M3FN"));
  ASSERT_EQ(matrix.storedBytes(), 256 * 8);
  std::vector<uint8_t> stored(size_t(matrix.storedBytes()));
  toStored(matrix, scales.data(), stored.data());
  const auto at = [&](int64_t row, int64_t column) {
    return scales[size_t(row * kColumns + column)];
  };
  // As torch reshapes [2, 4, 32, 2, 4] and permutes to [0, 3, 2, 1, 4].
  EXPECT_EQ(stored[0], at(0, 0));
  EXPECT_EQ(stored[3], at(0, 3));
  EXPECT_EQ(stored[4], at(32, 0));
  EXPECT_EQ(stored[16], at(1, 0));
  EXPECT_EQ(stored[16 * 31 + 4 * 3 + 2], at(127, 2));
  EXPECT_EQ(stored[512], at(0, 4));
  EXPECT_EQ(stored[513], 0xff); // column 5 is no scale's
  EXPECT_EQ(stored[1024], at(128, 0));
  EXPECT_EQ(stored[1024 + 16 + 1], at(129, 1));
  EXPECT_EQ(stored[1024 + 512 + 16], at(129, 4));
  EXPECT_EQ(stored[1024 + 32], 0xff); // row 130 is none
  std::vector<uint8_t> back(scales.size());
  fromStored(matrix, stored.data(), back.data());
  EXPECT_EQ(back, scales);
}

/// A layer of 3 gates, their ups and 2 columns, as 4 of each and 3 columns.
static Layer paddedLayer(const char *order) {
  Layer layer = layerOf("bf16", {}, {}, {});
  layer.gateUpOrder = order;
  layer.hidden = 2, layer.storedHidden = 3;
  layer.intermediate = 3, layer.storedIntermediate = 4;
  return layer;
}

static std::vector<uint16_t> padded(const Layer &layer, const char *name,
                                    int64_t rows, int64_t columns) {
  const StoredMatrix matrix =
      storedMatrix(layer, name, rows, columns, *findElement("bf16"));
  std::vector<uint16_t> from(size_t(rows * columns));
  for (size_t i = 0; i < from.size(); ++i)
    from[i] = uint16_t(i + 1);
  std::vector<uint16_t> made(size_t(matrix.storedBytes()) / 2);
  toStored(matrix, from.data(), made.data());
  std::vector<uint16_t> back(from.size());
  fromStored(matrix, made.data(), back.data());
  EXPECT_EQ(back, from);
  return made;
}

TEST(Stored, GatesAndUpsArePaddedApart) {
  constexpr uint16_t kNone = 0xffff;
  EXPECT_EQ(padded(paddedLayer("gate_first"), "w13", 6, 2),
            (std::vector<uint16_t>{1,  2,  kNone, 3,     4,     kNone,
                                   5,  6,  kNone, kNone, kNone, kNone,
                                   7,  8,  kNone, 9,     10,    kNone,
                                   11, 12, kNone, kNone, kNone, kNone}));
  EXPECT_EQ(padded(paddedLayer("gate_first"), "b13", 6, 1),
            (std::vector<uint16_t>{1, 2, 3, kNone, 4, 5, 6, kNone}));
  EXPECT_EQ(padded(paddedLayer("interleaved"), "b13", 6, 1),
            (std::vector<uint16_t>{1, 2, 3, 4, 5, 6, kNone, kNone}));
  EXPECT_EQ(padded(paddedLayer("gate_first"), "w2", 2, 3),
            (std::vector<uint16_t>{1, 2, 3, kNone, 4, 5, 6, kNone, kNone, kNone,
                                   kNone, kNone}));
  // Numbers of the router have no such sizes.
  EXPECT_EQ(padded(paddedLayer("gate_first"), "routing_bias", 1, 4),
            (std::vector<uint16_t>{1, 2, 3, 4}));
}

TEST(Stored, RowsTakeTurnsAfterEight) {
  Layer layer = paddedLayer("interleaved_8");
  layer.intermediate = 16;
  EXPECT_EQ(layer.storedRow(false, 7), 7);
  EXPECT_EQ(layer.storedRow(true, 0), 8);
  EXPECT_EQ(layer.storedRow(false, 9), 17);
  EXPECT_EQ(layer.storedRow(true, 15), 31);
  EXPECT_TRUE(layer.isGate(17));
  EXPECT_FALSE(layer.isGate(15));
}
