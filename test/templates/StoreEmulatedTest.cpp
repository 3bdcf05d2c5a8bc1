//===- StoreEmulatedTest.cpp - a tile emulated where it was computed ------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The epilogue of a matmul that emulates its result, thread by thread on the
// host: what it stores is what the reference makes of the rows, and nothing
// else is written.
//
//===----------------------------------------------------------------------===//

#include "runtime/host/Element.h"
#include "test/reference/FirstHalf.h"
#include "test/reference/TestData.h"
#include "test/templates/DeviceFunctions.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <random>
#include <vector>

#include "templates/moe/matmul/epilogue/store_emulated.cuh"

using namespace moec;

namespace {

/// A tile of 16 rows by 64 columns of a result of 200, in a row of which lie
/// groups of 16 and of 32, the last of them not whole.
struct Tile {
  static constexpr int kTileColumns = 64, kColumns = 200;
  static constexpr int kRowBytes = kTileColumns * 4 + 16;
  static constexpr int kTileM = 16;
};

template <class Policy, class Element> struct Config {
  struct Args {
    Element *data;
    const float *static_scale;
  };
  using Scaling = Policy;
  static constexpr int kThreads = 96, kScales = 3;
};

std::vector<float> randomTile(unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> exponents(-12, 6), part(-1, 1);
  std::vector<float> values(size_t(Tile::kTileM) * Tile::kColumns);
  for (float &value : values)
    value = part(random) * std::exp2(exponents(random));
  // A group of zeros.
  for (int column = 0; column < 32; ++column)
    values[3 * Tile::kColumns + 32 + column] = 0;
  return values;
}

/// Leaves the tile that begins at `firstColumn` where storeTile does.
void stage(const std::vector<float> &values, int rows, int firstColumn) {
  for (int row = 0; row < Tile::kTileM; ++row)
    for (int column = 0; column < Tile::kTileColumns; ++column) {
      const int of = firstColumn + column;
      // The values behind the last row and column do not count.
      const float value = row < rows && of < Tile::kColumns
                              ? values[row * Tile::kColumns + of]
                              : 1e30f;
      std::memcpy(warps::sharedMemory + row * Tile::kRowBytes + column * 4,
                  &value, 4);
    }
}

constexpr uint16_t kUntouched = 0x7f7f;

/// Every column tile of `rows` rows.
template <class Policy, class Element>
std::vector<uint16_t> storeAll(const std::vector<float> &values, int rows,
                               float second) {
  using C = Config<Policy, Element>;
  std::vector<uint16_t> stored(values.size(), kUntouched);
  const float seconds[3] = {second / 2, second, second / 4};
  typename C::Args args = {reinterpret_cast<Element *>(stored.data()), seconds};
  for (int first = 0; first < Tile::kColumns; first += Tile::kTileColumns) {
    stage(values, rows, first);
    warps::run(C::kThreads, [&] {
      moe::storeEmulated<C, Tile, C::kThreads>(
          int(threadIdx.x), 0, rows, first, args.data,
          moe::inverseOfScale<C>(args, false));
    });
  }
  return stored;
}

template <class Policy>
void compare(const char *element, const reference::Scaling &scaling,
             float second = 1) {
  const reference::Element &bf16 = *reference::findElement("bf16");
  for (int rows : {1, 5, 16}) {
    const std::vector<float> values = randomTile(unsigned(rows));
    const std::vector<uint16_t> stored =
        storeAll<Policy, moe::bf16>(values, rows, second);
    for (int row = 0; row < Tile::kTileM; ++row) {
      std::vector<double> expected(values.begin() + row * Tile::kColumns,
                                   values.begin() + (row + 1) * Tile::kColumns);
      reference::emulateRow(*reference::findElement(element), scaling, second,
                            bf16, expected.data(), Tile::kColumns);
      for (int column = 0; column < Tile::kColumns; ++column) {
        const uint16_t bits = stored[row * Tile::kColumns + column];
        if (row >= rows)
          ASSERT_EQ(bits, kUntouched) << element << " row " << row;
        else
          ASSERT_EQ(host::fromBf16(bits), float(expected[column]))
              << element << " rows " << rows << " row " << row << " column "
              << column;
      }
    }
  }
}

TEST(StoreEmulated, EmulatedGroupsAreThoseOfTheReference) {
  namespace quant = moe::quant;
  reference::Scaling scaling;
  scaling.rows = 1, scaling.columns = 32, scaling.rule = "even";
  compare<quant::PowerGroups<moe::e2m1, quant::Even, 32>>("f4E2M1FN", scaling);
  scaling.rule = "floor";
  compare<quant::PowerGroups<moe::e3m2, quant::Floor, 32>>("f6E3M2FN", scaling);
  scaling.rule = "ceil";
  compare<quant::PowerGroups<moe::e4m3, quant::Ceil, 32>>("f8E4M3FN", scaling);
  scaling.rule.clear();
  scaling.columns = 64;
  compare<quant::FloatGroups<moe::e4m3, 64>>("f8E4M3FN", scaling);
}

TEST(StoreEmulated, AGivenScaleIsTheLargestOfAllExperts) {
  reference::Scaling scaling;
  scaling.rows = scaling.columns = -1;
  compare<moe::quant::FloatTensor<moe::e4m3, false>>("f8E4M3FN", scaling,
                                                     0.003f);
}

template <class Policy, class Code, class Scale> struct EncodingConfig {
  struct Args {
    Code *data;
    Scale *scale;
    const float *static_scale;
  };
  using Scaling = moe::quant::Encoded<Policy>;
  static constexpr int kThreads = 96, kScales = 3;
};

/// Codes times their scales are the numbers of the reference, and a NaN is a
/// NaN. `outer`: the stored scale; value(codes, i) decodes one.
template <class Policy, class Code, class Scale, class Value>
void compareCodes(const char *element, const reference::Scaling &scaling,
                  float outer, Value value) {
  using C = EncodingConfig<Policy, Code, Scale>;
  constexpr int kGroups = moe::ceilDiv(Tile::kColumns, Policy::kColumns);
  const reference::Element &f32 = *reference::findElement("f32");
  const int rows = 13;
  std::vector<float> values = randomTile(7);
  values[5 * Tile::kColumns + 3] = std::nanf("");
  std::vector<uint8_t> codes(values.size(), 0x7f),
      scales(size_t(Tile::kTileM) * kGroups, 0x7f);
  const float stored[3] = {outer / 2, outer, outer / 4};
  typename C::Args args = {reinterpret_cast<Code *>(codes.data()),
                           reinterpret_cast<Scale *>(scales.data()), stored};
  for (int first = 0; first < Tile::kColumns; first += Tile::kTileColumns) {
    stage(values, rows, first);
    warps::run(C::kThreads, [&] {
      moe::storeEmulated<C, Tile, C::kThreads>(
          int(threadIdx.x), 0, rows, first, args.data,
          moe::inverseOfScale<C>(args, false), args.scale);
    });
  }
  for (int row = 0; row < rows; ++row) {
    std::vector<double> expected(values.begin() + row * Tile::kColumns,
                                 values.begin() + (row + 1) * Tile::kColumns);
    reference::emulateRow(*reference::findElement(element), scaling, outer, f32,
                          expected.data(), Tile::kColumns);
    for (int column = 0; column < Tile::kColumns; ++column) {
      const float number =
          value(codes, row * Tile::kColumns + column) *
          moe::toFloat(
              Scale{scales[row * kGroups + column / Policy::kColumns]}) *
          (scaling.second ? outer : 1);
      if (std::isnan(expected[column]))
        EXPECT_TRUE(std::isnan(number))
            << element << " " << row << " " << column;
      else if (row != 5 || column >= Policy::kColumns)
        ASSERT_EQ(number, float(expected[column]))
            << element << " row " << row << " column " << column;
    }
  }
  // Rows that the tile does not have are left as they were.
  EXPECT_EQ(scales[rows * kGroups], 0x7f);
}

TEST(StoreEmulated, CodesAndScalesStandForTheNumbersOfTheReference) {
  namespace quant = moe::quant;
  const auto nibble = [](const std::vector<uint8_t> &codes, int i) {
    return moe::decode<moe::e2m1>(codes[i / 2] >> i % 2 * 4);
  };
  reference::Scaling scaling;
  scaling.rows = 1, scaling.columns = 32, scaling.rule = "ceil";
  compareCodes<quant::PowerGroups<moe::e4m3, quant::Ceil, 32>, moe::e4m3,
               moe::ue8m0>("f8E4M3FN", scaling, 1,
                           [](const std::vector<uint8_t> &codes, int i) {
                             return moe::decode<moe::e4m3>(codes[i]);
                           });
  scaling.rule = "even";
  compareCodes<quant::PowerGroups<moe::e2m1, quant::Even, 32>, moe::e2m1,
               moe::ue8m0>("f4E2M1FN", scaling, 1, nibble);
  scaling.rule.clear();
  scaling.columns = 16, scaling.second = true;
  compareCodes<quant::TwoLevels<moe::e2m1, 16, false>, moe::e2m1, moe::e4m3>(
      "f4E2M1FN", scaling, 0.125f, nibble);
}

} // namespace
