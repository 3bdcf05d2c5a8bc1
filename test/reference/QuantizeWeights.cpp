//===- QuantizeWeights.cpp - codes and scales of float weights ------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Part by part, group by group.
//
//===----------------------------------------------------------------------===//

#include "test/reference/QuantizeWeights.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace moec::reference {

namespace {

/// One weight of the layer, and its parts.
struct Weights {
  const Scaling &scaling;
  const Element &code;
  int64_t rows, columns, parts;
  bool alternate;
  int64_t scaleColumns;

  int64_t partRows() const { return rows / parts; }
  int64_t tall() const {
    return scaling.rows == -1 ? partRows() : scaling.rows;
  }
  int64_t wide() const {
    return scaling.columns == -1 ? columns : scaling.columns;
  }
  /// A row of a part, as stored.
  int64_t stored(int64_t part, int64_t row) const {
    return alternate ? row * parts + part : part * partRows() + row;
  }
  /// The row of the scales of that row's groups.
  int64_t scaleRow(int64_t part, int64_t row) const {
    if (tall() == 1)
      return stored(part, row);
    return part * ((partRows() + tall() - 1) / tall()) + row / tall();
  }
};

/// The largest number of a type of codes, and its largest power of two.
struct Largest {
  double number = 0, power = 0;
  explicit Largest(const Element &element, bool zeroPoints) {
    if (!element.isFloat) {
      number = element.bits() == 8 ? 127 : zeroPoints ? 15 : 7;
      return;
    }
    number = 0;
    for (unsigned code = 0; code < 1u << (element.bits() - 1); ++code) {
      const auto byte = uint8_t(code);
      const double value = load(element, &byte, 0);
      if (std::isfinite(value))
        number = std::max(number, value);
    }
    power = std::exp2(std::floor(std::log2(number)));
  }
};

/// The exponent of a scale that is a power of two.
double powerFor(const Element &code, const Largest &most, double amax) {
  constexpr double kLeast = -127;
  if (amax == 0)
    return kLeast;
  double exponent = 0;
  if (code.bits() == 4) {
    // Rounded to a code's bits, half up.
    const double power = std::exp2(std::floor(std::log2(amax)));
    const double step = power * std::exp2(-code.mantissaBits);
    exponent = std::floor(std::log2(std::floor(amax / step + 0.5) * step)) -
               std::log2(most.power);
  } else {
    const double scale = double(float(amax / most.number));
    exponent = std::floor(std::log2(scale));
    if (std::exp2(exponent) < scale)
      ++exponent;
  }
  return std::clamp(exponent, kLeast, 127.0);
}

} // namespace

QuantizedWeight quantizeWeight(const Layer &layer, bool first,
                               const void *floats) {
  const Weights w = {first ? layer.w1Scaling : layer.w2Scaling,
                     *layer.weightType,
                     first ? layer.gateUpRows() : layer.hidden,
                     first ? layer.hidden : layer.intermediate,
                     first && layer.gated ? 2 : 1,
                     first && layer.gateUpOrder == "interleaved",
                     first ? layer.w13ScaleColumns() : layer.w2ScaleColumns()};
  const int64_t scaleRows = first ? layer.w13ScaleRows() : layer.w2ScaleRows();
  const Element &scaleType = *w.scaling.scaleType;
  const Largest most(w.code, w.scaling.zeroPoint);
  const bool ofTensor = w.scaling.ofTensor();
  const bool ofChannel = w.scaling.rows == 1 && w.scaling.columns == -1;
  std::vector<double> values(size_t(w.rows * w.columns));
  loadMany(*layer.storedWeightType, floats, w.rows * w.columns, values.data());

  QuantizedWeight made;
  made.codes.resize(size_t(w.rows * w.code.bytesOf(w.columns)));
  made.scales.resize(size_t(scaleRows * scaleType.bytesOf(w.scaleColumns)));
  if (w.scaling.second)
    made.secondScales.resize(size_t(w.parts) * sizeof(float));
  if (w.scaling.zeroPoint)
    made.zeroPoints.resize(size_t(scaleRows * w.scaleColumns));
  for (int64_t part = 0; part < w.parts; ++part) {
    float second = 1;
    if (w.scaling.second) {
      double amax = 0;
      for (int64_t r = 0; r < w.partRows(); ++r)
        for (int64_t c = 0; c < w.columns; ++c)
          amax = std::max(
              amax,
              std::fabs(values[size_t(w.stored(part, r) * w.columns + c)]));
      constexpr double kLargestScale = 448;
      second = amax == 0 ? 1 : float(amax / (kLargestScale * most.number));
      store(*findElement("f32"), made.secondScales.data(), part, second);
    }
    for (int64_t row = 0; row < w.partRows(); row += w.tall())
      for (int64_t column = 0; column < w.columns; column += w.wide()) {
        const int64_t at =
            w.scaleRow(part, row) * w.scaleColumns + column / w.wide();
        const auto each = [&](auto visit) {
          for (int64_t r = row; r < std::min(row + w.tall(), w.partRows()); ++r)
            for (int64_t c = column; c < std::min(column + w.wide(), w.columns);
                 ++c) {
              const int64_t element = w.stored(part, r) * w.columns + c;
              visit(element, float(values[size_t(element)]));
            }
        };
        float least = 0, greatest = 0;
        each([&](int64_t, float value) {
          least = std::min(least, value);
          greatest = std::max(greatest, value);
        });
        const float amax = std::max(greatest, -least);
        const auto largest = float(most.number);
        float scale = 0;
        if (scaleType.isPower)
          scale = std::exp2(float(powerFor(w.code, most, amax)));
        else if (w.scaling.second)
          scale = amax / largest / second;
        else if (w.scaling.zeroPoint)
          scale = std::max(greatest - least, 1e-10f) / largest;
        else if (w.code.isFloat && ofTensor)
          scale = amax == 0 ? 1 : amax / largest;
        else if (w.code.isFloat && ofChannel)
          scale = std::max(amax / largest, 1 / (largest * 512));
        else
          scale = std::max(amax, 1e-10f) / largest;
        store(scaleType, made.scales.data(), at, scale);
        const auto rounded =
            float(load(scaleType, made.scales.data(), at)) * second;
        double zero = 0;
        if (w.scaling.zeroPoint) {
          if (rounded != 0)
            zero = std::clamp(std::nearbyint(double(-least / rounded)), 0.0,
                              most.number);
          store(*findElement("i8"), made.zeroPoints.data(), at, zero);
        }
        const float inverse = 1 / rounded;
        each([&](int64_t element, float value) {
          float divided = rounded == 0 ? 0 : value / rounded;
          if (w.code.isFloat && ofTensor && !scaleType.isPower &&
              !w.scaling.second && inverse <= 3.0e38f)
            divided = value * inverse;
          double number =
              std::clamp(double(divided), -most.number, most.number);
          if (!w.code.isFloat)
            number = std::nearbyint(number);
          if (w.scaling.zeroPoint)
            number = std::clamp(number + zero, 0.0, most.number);
          else if (w.code.name == "i4")
            number += 8;
          store(w.code, made.codes.data(), element, number);
        });
      }
  }
  return made;
}

} // namespace moec::reference
