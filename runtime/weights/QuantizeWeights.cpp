//===- QuantizeWeights.cpp - quantizes a float matrix ---------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Quantizes one group at a time, by the rules of runtime/host/WeightRules.h.
//
//===----------------------------------------------------------------------===//

#include "runtime/weights/QuantizeWeights.h"

#include "runtime/host/WeightRules.h"

#include <algorithm>

using namespace moec;
using namespace moec::weights;
using host::WeightRange;
using host::WeightRules;

namespace {

/// Computes the codes (quantized values) and scales of a matrix, one group at a
/// time.
class Quantizer {
public:
  Quantizer(std::span<const float> data, int64_t rows, int64_t columns,
            const WeightFormat &format, const WeightRules &rules)
      : data(data), rows(rows), columns(columns), format(format), rules(rules),
        bits(host::storageBits(rules.codes())),
        groupRows(format.groupRows == -1 ? rows : format.groupRows),
        groupColumns(format.groupColumns == -1 ? columns
                                               : format.groupColumns) {}

  QuantizedMatrix run();

private:
  template <typename Visit>
  void visit(int64_t row, int64_t column, Visit each) const {
    const int64_t endRow = std::min(row + groupRows, rows);
    const int64_t endColumn = std::min(column + groupColumns, columns);
    for (int64_t r = row; r < endRow; ++r)
      for (int64_t c = column; c < endColumn; ++c)
        each(r, c, data[size_t(r * columns + c)]);
  }
  void put(int64_t row, int64_t column, uint8_t code) {
    const int64_t first = (row * columns + column) * bits;
    std::byte *to = made.codes.data() + first / 8;
    *to |= std::byte(code << first % 8);
    if (first % 8 + bits > 8)
      to[1] |= std::byte(code >> (8 - first % 8));
  }

  std::span<const float> data;
  int64_t rows, columns;
  const WeightFormat &format;
  const WeightRules &rules;
  int64_t bits, groupRows, groupColumns;
  QuantizedMatrix made;
};

QuantizedMatrix Quantizer::run() {
  made.scaleRows = (rows + groupRows - 1) / groupRows;
  made.scaleColumns = (columns + groupColumns - 1) / groupColumns;
  const int64_t scaleBytes = host::storageBytes(rules.scales());
  made.codes.resize(size_t(rows * columns * bits / 8));
  made.scales.resize(size_t(made.scaleRows * made.scaleColumns * scaleBytes));
  if (format.zeroPoint)
    made.zeroPoints.resize(size_t(made.scaleRows * made.scaleColumns));
  if (format.second) {
    WeightRange all;
    for (float value : data)
      all.take(value);
    made.second = rules.secondScale(all.largest());
  }
  for (int64_t i = 0; i < made.scaleRows * made.scaleColumns; ++i) {
    const int64_t row = i / made.scaleColumns * groupRows;
    const int64_t column = i % made.scaleColumns * groupColumns;
    std::byte *scale = made.scales.data() + i * scaleBytes;
    WeightRange range;
    visit(row, column,
          [&](int64_t, int64_t, float value) { range.take(value); });
    rules.storeScale(range, made.second, scale);
    const float factor = rules.factor(scale, made.second);
    uint8_t zeroPoint = 0;
    if (format.zeroPoint) {
      zeroPoint = rules.zeroPoint(range, factor);
      made.zeroPoints[size_t(i)] = int8_t(zeroPoint);
    }
    visit(row, column, [&](int64_t r, int64_t c, float value) {
      put(r, c, rules.code(value, factor, zeroPoint));
    });
  }
  return std::move(made);
}

} // namespace

Result<QuantizedMatrix> weights::quantizeMatrix(std::span<const float> data,
                                                int64_t rows, int64_t columns,
                                                const WeightFormat &format) {
  const Result<WeightRules> rules = WeightRules::of(format);
  if (!rules)
    return Error{rules.error().code, rules.error().message};
  if (columns * host::storageBits(rules->codes()) % 8 != 0)
    return refused("{} columns of {} do not fill whole bytes", columns,
                   format.element);
  return Quantizer(data, rows, columns, format, *rules).run();
}
