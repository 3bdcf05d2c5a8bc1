//===- QuantizeWeights.cpp - codes and scales of a float matrix -----------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All in f32, each step rounded once, so that any machine gives the same codes.
//
//===----------------------------------------------------------------------===//

#include "runtime/weights/QuantizeWeights.h"

#include "runtime/host/Element.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

using namespace moec;
using namespace moec::weights;
using host::Storage;

namespace {

/// The numbers that a code of 8 bits or fewer may be, without a sign.
class Codes {
public:
  explicit Codes(Storage storage)
      : storage(storage), bits(int(host::storageBits(storage))) {
    for (unsigned code = 0; code < 1u << (bits - 1); ++code) {
      const float value = host::fromCode(storage, uint8_t(code));
      if (!std::isfinite(value))
        break; // what follows is no number either
      values.push_back(value);
    }
  }
  float largest() const { return values.back(); }
  /// To nearest, ties to the even code, saturated.
  uint8_t nearest(float number) const {
    const float size = std::fabs(number);
    size_t code = size_t(std::lower_bound(values.begin(), values.end(), size) -
                         values.begin());
    if (code == values.size())
      --code;
    else if (code > 0 && values[code] != size) {
      const double below = double(size) - values[code - 1];
      const double above = double(values[code]) - size;
      if (below < above || (below == above && code % 2 == 1))
        --code;
    }
    const bool negative = std::signbit(number);
    return uint8_t(code | (negative ? 1u << (bits - 1) : 0));
  }

private:
  Storage storage;
  int bits;
  std::vector<float> values;
};

/// The exponent of the largest number, and bits of its fraction.
struct FloatShape {
  int exponent, fraction;
};

FloatShape shapeOf(Storage storage) {
  switch (storage) {
  case Storage::E4M3:
    return {8, 3};
  case Storage::E5M2:
    return {15, 2};
  case Storage::E3M2:
    return {4, 2};
  case Storage::E2M3:
    return {2, 3};
  default:
    return {2, 1}; // E2M1
  }
}

constexpr int kExponentBias = 127;

/// The code of a scale that is a power of two.
uint8_t powerOfTwo(float amax, Storage storage, float largest,
                   const std::string &rule) {
  if (amax == 0)
    return 0;
  const FloatShape shape = shapeOf(storage);
  const auto exponentOf = [](float value) { return std::ilogb(value); };
  int exponent = 0;
  if (rule == "ceil") {
    const float scale = amax / largest;
    exponent = exponentOf(scale);
    if (std::ldexp(1.0f, exponent) < scale)
      ++exponent;
  } else if (rule == "floor") {
    exponent = exponentOf(amax) - shape.exponent;
  } else {
    // amax rounded to the bits that a code has, half up.
    const auto bits = std::bit_cast<uint32_t>(amax);
    const uint32_t half = 1u << (22 - shape.fraction);
    exponent = exponentOf(std::bit_cast<float>((bits + half) & 0xFF800000)) -
               shape.exponent;
  }
  return uint8_t(std::clamp(exponent + kExponentBias, 0, 254));
}

/// Fills codes and scales, group by group.
class Quantizer {
public:
  Quantizer(std::span<const float> data, int64_t rows, int64_t columns,
            const WeightFormat &format)
      : data(data), rows(rows), columns(columns), format(format),
        storage(host::storageOf(format.element)),
        scaleStorage(host::storageOf(format.scale)),
        groupRows(format.groupRows == -1 ? rows : format.groupRows),
        groupColumns(format.groupColumns == -1 ? columns
                                               : format.groupColumns) {}

  Result<QuantizedMatrix> run();

private:
  bool isInteger() const {
    return storage == Storage::I8 || storage == Storage::I4;
  }
  Result<void> check() const;
  float round(float scale, std::byte *to) const {
    host::storeFloats(scaleStorage, &scale, 1, to);
    host::loadFloats(scaleStorage, to, 1, &scale);
    return scale;
  }
  struct Range {
    float least = 0, most = 0, amax = 0;
  };
  Range rangeOf(int64_t row, int64_t column) const;
  template <typename Visit>
  void visit(int64_t row, int64_t column, Visit each) const {
    const int64_t endRow = std::min(row + groupRows, rows);
    const int64_t endColumn = std::min(column + groupColumns, columns);
    for (int64_t r = row; r < endRow; ++r)
      for (int64_t c = column; c < endColumn; ++c)
        each(r, c, data[size_t(r * columns + c)]);
  }
  void put(int64_t row, int64_t column, uint8_t code) {
    const int64_t bits = host::storageBits(storage);
    const int64_t first = (row * columns + column) * bits;
    std::byte *to = made.codes.data() + first / 8;
    *to |= std::byte(code << first % 8);
    if (first % 8 + bits > 8)
      to[1] |= std::byte(code >> (8 - first % 8));
  }
  void floats(int64_t row, int64_t column, std::byte *scale);
  void integers(int64_t row, int64_t column, std::byte *scale,
                int8_t *zeroPoint);

  std::span<const float> data;
  int64_t rows, columns;
  const WeightFormat &format;
  Storage storage, scaleStorage;
  int64_t groupRows, groupColumns;
  std::vector<Codes> codes; ///< one, of floats
  QuantizedMatrix made;
};

Result<void> Quantizer::check() const {
  constexpr Storage kCodes[] = {Storage::E4M3, Storage::E5M2, Storage::E3M2,
                                Storage::E2M3, Storage::E2M1, Storage::I8,
                                Storage::I4};
  constexpr Storage kScales[] = {Storage::F32, Storage::F16, Storage::BF16,
                                 Storage::E4M3, Storage::UE8M0};
  const auto has = [](auto &list, Storage what) {
    return std::find(std::begin(list), std::end(list), what) != std::end(list);
  };
  const bool powers = scaleStorage == Storage::UE8M0;
  if (!has(kCodes, storage) || !has(kScales, scaleStorage) ||
      (format.zeroPoint && storage != Storage::I4) ||
      (format.second != (scaleStorage == Storage::E4M3)) ||
      (isInteger() && (powers || format.second)))
    return Error{
        ErrorCode::Refused,
        fmt::format("no rule makes {} with scales of {}{}{}; accepted: f8, f6 "
                    "and f4 types, i8 and i4, with scales of f32, f16 or bf16, "
                    "floats also with those of f8E8M0FNU, or of f8E4M3FN "
                    "below one of f32, i4 also with zero points",
                    format.element,
                    format.scale.empty() ? "none" : format.scale,
                    format.second ? " below one of f32" : "",
                    format.zeroPoint ? " and zero points" : "")};
  if (columns * host::storageBits(storage) % 8 != 0)
    return Error{ErrorCode::Refused,
                 fmt::format("{} columns of {} do not fill whole bytes",
                             columns, format.element)};
  return {};
}

Quantizer::Range Quantizer::rangeOf(int64_t row, int64_t column) const {
  Range range;
  visit(row, column, [&](int64_t, int64_t, float value) {
    range.least = std::min(range.least, value);
    range.most = std::max(range.most, value);
  });
  range.amax = std::max(range.most, -range.least);
  return range;
}

void Quantizer::floats(int64_t row, int64_t column, std::byte *scale) {
  const Codes &table = codes.front();
  const float largest = table.largest();
  const float amax = rangeOf(row, column).amax;
  constexpr float kLeast = 1e-10f;
  const bool ofTensor = format.groupRows == -1 && format.groupColumns == -1;
  const bool ofChannel = format.groupRows == 1 && format.groupColumns == -1;
  float factor = 1;
  if (scaleStorage == Storage::UE8M0) {
    const std::string rule = !format.scaleRule.empty()  ? format.scaleRule
                             : storage == Storage::E2M1 ? "even"
                                                        : "ceil";
    const uint8_t code = powerOfTwo(amax, storage, largest, rule);
    *scale = std::byte(code);
    factor = std::ldexp(1.0f, code - kExponentBias);
  } else if (format.second) {
    factor = round(amax / largest / made.second, scale) * made.second;
  } else if (ofTensor) {
    factor = round(amax == 0 ? 1 : amax / largest, scale);
  } else if (ofChannel) {
    constexpr float kSmallest = 512;
    factor = round(std::max(amax / largest, 1 / (largest * kSmallest)), scale);
  } else {
    factor = round(std::max(amax, kLeast) / largest, scale);
  }
  // A tensor's numbers are multiplied by the inverse, as those of activations.
  const float inverse = 1 / factor;
  visit(row, column, [&](int64_t r, int64_t c, float value) {
    const float divided = factor == 0 ? 0
                          : ofTensor  ? value * inverse
                                      : value / factor;
    put(r, c, table.nearest(divided));
  });
}

void Quantizer::integers(int64_t row, int64_t column, std::byte *scale,
                         int8_t *zeroPoint) {
  constexpr float kLeast = 1e-10f;
  const bool isByte = storage == Storage::I8;
  const Range range = rangeOf(row, column);
  if (zeroPoint) {
    constexpr float kMost = 15;
    const float factor =
        round(std::max(range.most - range.least, kLeast) / kMost, scale);
    const float zero =
        std::clamp(std::nearbyint(-range.least / factor), 0.0f, kMost);
    *zeroPoint = int8_t(zero);
    visit(row, column, [&](int64_t r, int64_t c, float value) {
      put(r, c,
          uint8_t(
              std::clamp(std::nearbyint(value / factor) + zero, 0.0f, kMost)));
    });
    return;
  }
  const float most = isByte ? 127 : 7;
  const float factor = round(std::max(range.amax, kLeast) / most, scale);
  visit(row, column, [&](int64_t r, int64_t c, float value) {
    const auto code =
        int(std::clamp(std::nearbyint(value / factor), -most, most));
    put(r, c, isByte ? uint8_t(int8_t(code)) : uint8_t(code + 8));
  });
}

Result<QuantizedMatrix> Quantizer::run() {
  if (Result<void> ok = check(); !ok)
    return ok.takeError();
  made.scaleRows = (rows + groupRows - 1) / groupRows;
  made.scaleColumns = (columns + groupColumns - 1) / groupColumns;
  const int64_t scaleBytes = host::storageBytes(scaleStorage);
  made.codes.resize(size_t(rows * columns * host::storageBits(storage) / 8));
  made.scales.resize(size_t(made.scaleRows * made.scaleColumns * scaleBytes));
  if (format.zeroPoint)
    made.zeroPoints.resize(size_t(made.scaleRows * made.scaleColumns));
  if (!isInteger())
    codes.emplace_back(storage);
  if (format.second) {
    // The largest scale of all is the largest number that its type has.
    constexpr float kLargestScale = 448;
    float amax = 0;
    for (float value : data)
      amax = std::max(amax, std::fabs(value));
    made.second =
        amax == 0 ? 1 : amax / (kLargestScale * codes.front().largest());
  }
  for (int64_t i = 0; i < made.scaleRows * made.scaleColumns; ++i) {
    const int64_t row = i / made.scaleColumns * groupRows;
    const int64_t column = i % made.scaleColumns * groupColumns;
    std::byte *scale = made.scales.data() + i * scaleBytes;
    if (isInteger())
      integers(row, column, scale,
               format.zeroPoint ? &made.zeroPoints[size_t(i)] : nullptr);
    else
      floats(row, column, scale);
  }
  return std::move(made);
}

} // namespace

Result<QuantizedMatrix> weights::quantizeMatrix(std::span<const float> data,
                                                int64_t rows, int64_t columns,
                                                const WeightFormat &format) {
  return Quantizer(data, rows, columns, format).run();
}
