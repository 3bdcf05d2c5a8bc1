//===- FirstHalf.cpp - from x to the intermediate -------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Threads share the rows of a weight; each row is read once and multiplied with
// every token of the expert.
//
//===----------------------------------------------------------------------===//

#include "test/reference/FirstHalf.h"
#include "runtime/support/Progress.h"
#include "test/reference/TestData.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace moec::reference {

namespace {
/// An activation function f(g) of the gate, or of the only value.
struct Function {
  std::string_view name;
  double (*value)(const ActivationNumbers &numbers, double g);
};
} // namespace

/// Returns the limit, or infinity if there is none.
static double limitOf(const ActivationNumbers &numbers) {
  return numbers.limit > 0 ? numbers.limit
                           : std::numeric_limits<double>::infinity();
}

static double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// max(g, 0). NaN stays NaN.
static double positive(double g) { return g < 0 ? 0 : g; }

static constexpr Function kFunctions[] = {
    {"silu",
     [](const ActivationNumbers &numbers, double g) {
       g = std::min(g, limitOf(numbers));
       return g * sigmoid(numbers.alpha * g);
     }},
    {"gelu",
     [](const ActivationNumbers &, double g) {
       return 0.5 * g * (1 + std::erf(g / std::numbers::sqrt2));
     }},
    {"gelu_tanh",
     [](const ActivationNumbers &, double g) {
       return 0.5 * g *
              (1 + std::tanh(std::sqrt(2 / std::numbers::pi) *
                             (g + 0.044715 * g * g * g)));
     }},
    {"relu", [](const ActivationNumbers &, double g) { return positive(g); }},
    {"relu2", [](const ActivationNumbers &,
                 double g) { return positive(g) * positive(g); }},
    {"swiglustep",
     [](const ActivationNumbers &numbers, double g) {
       return std::min(g * sigmoid(g), limitOf(numbers));
     }},
    {"situ",
     [](const ActivationNumbers &numbers, double g) {
       return numbers.beta * std::tanh(g / numbers.beta) * sigmoid(g);
     }},
    {"powlu",
     [](const ActivationNumbers &numbers, double g) {
       const double factor =
           g > 0 ? std::pow(g, numbers.alpha / (std::sqrt(g) + 1)) : g;
       return std::min(factor * sigmoid(g), limitOf(numbers));
     }},
    {"clamped_relu2",
     [](const ActivationNumbers &numbers, double g) {
       g = positive(g);
       if (std::isfinite(limitOf(numbers)))
         g = numbers.limit * std::tanh(g / numbers.limit);
       return g * g;
     }},
};

std::vector<std::string_view> activationFunctions() {
  std::vector<std::string_view> names;
  for (const Function &function : kFunctions)
    names.push_back(function.name);
  return names;
}

static double activate(const Layer &layer, const ActivationNumbers &numbers,
                       double g) {
  return std::ranges::find(kFunctions, layer.function, &Function::name)
      ->value(numbers, g);
}

/// The factor that up becomes.
static double carry(const Layer &layer, const ActivationNumbers &numbers,
                    double up) {
  if (layer.function == "situ")
    return numbers.linearBeta > 0
               ? numbers.linearBeta * std::tanh(up / numbers.linearBeta)
               : up;
  if (numbers.limit > 0)
    up = std::clamp(up, -numbers.limit, numbers.limit);
  return up + numbers.beta;
}

ActivationNumbers numbersOf(const Layer &layer, const Inputs &inputs,
                            int64_t expert) {
  ActivationNumbers numbers = layer.numbers;
  for (size_t i = 0; i < kActivationNumbers.size(); ++i)
    if (const Matrix &given = inputs.numbers[i]; layer.ofExperts[i])
      numbers.at(i) = load(*given.element, given.data, expert);
  return numbers;
}

double dot(const double *a, const double *b, int64_t count) {
  double sums[8] = {};
  int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    for (int lane = 0; lane < 8; ++lane)
      sums[lane] += a[i + lane] * b[i + lane];
  double rest = 0;
  for (; i < count; ++i)
    rest += a[i] * b[i];
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) +
         ((sums[1] + sums[5]) + (sums[3] + sums[7])) + rest;
}

static WeightScales scalesOf(const Layer &layer, const Weight &scales,
                             const Weight &second, const Weight &zeroPoints,
                             const Scaling &scaling, int64_t perExpert,
                             int64_t scaleColumns, int64_t parts, int64_t rows,
                             int64_t columns) {
  WeightScales result;
  if (!scaling.given)
    return result;
  result.scales = &scales;
  if (scaling.second)
    result.second = &second;
  result.secondPerRow = scaling.secondPerRow;
  if (scaling.zeroPoint)
    result.zeroPoints = &zeroPoints;
  // Integers of 4 bits have no sign.
  result.middle = layer.weightType->name == "i4" ? 8 : 0;
  result.roundsTo = layer.weightsRoundTo();
  result.perExpert = perExpert;
  result.columns = scaleColumns;
  result.parts = parts;
  result.partRows = rows / parts;
  result.groupRows = scaling.rows == -1 ? result.partRows : scaling.rows;
  result.groupColumns = scaling.columns == -1 ? columns : scaling.columns;
  return result;
}

WeightScales scalesOfW2(const Layer &layer, const Inputs &inputs) {
  WeightScales made =
      scalesOf(layer, inputs.w2Scale, inputs.w2SecondScale, inputs.w2ZeroPoint,
               layer.w2Scaling, layer.w2ScaleRows(), layer.w2ScaleColumns(), 1,
               layer.hidden, layer.intermediate);
  if (layer.groupIndex)
    made.index = &inputs.w2GroupIndex;
  return made;
}

std::vector<std::vector<Pair>> pairsOf(const Layer &layer,
                                       const Routing &routing,
                                       const std::vector<int64_t> &list) {
  std::vector<std::vector<Pair>> pairs(layer.localExperts);
  for (size_t row = 0; row < list.size(); ++row)
    for (int64_t k = 0; k < routing.pairs; ++k) {
      const int64_t pair = list[row] * routing.pairs + k;
      const int64_t local = routing.locals[pair];
      // The factor of the output is the routed experts' alone.
      const double factor = k < layer.topK ? layer.outputScale : 1;
      const double weight = layer.weightOnInput ? 1 : routing.weights[pair];
      if (local >= 0)
        pairs[local].push_back({int64_t(row), pair, weight * factor});
    }
  return pairs;
}

void readRows(const Weight &weight, int64_t expert, int64_t rowsPerExpert,
              int64_t columns, int64_t row, int64_t rows,
              std::vector<char> &bytes, std::vector<double> &values) {
  values.resize(rows * columns);
  const void *source;
  if (weight.read) {
    bytes.resize(rows * weight.element->bytesOf(columns));
    weight.read(expert, row, rows, bytes.data());
    source = bytes.data();
  } else {
    source = static_cast<const char *>(weight.data) +
             (expert * rowsPerExpert + row) * weight.element->bytesOf(columns);
  }
  loadMany(*weight.element, source, rows * columns, values.data());
}

void dequantize(const WeightScales &scales, int64_t expert, int64_t row,
                int64_t columns, std::vector<char> &bytes,
                std::vector<double> &values) {
  if (!scales.scales)
    return;
  std::vector<double> scaleRow, zeroRow, secondScale = {1}, groups;
  if (scales.index)
    readRows(*scales.index, expert, 1, columns, 0, 1, bytes, groups);
  for (int64_t i = 0; i < int64_t(values.size()) / columns; ++i) {
    int64_t part = (row + i) / scales.partRows;
    int64_t inPart = (row + i) % scales.partRows;
    if (const int64_t run = scales.rowsInTurn) {
      part = (row + i) / run % 2;
      inPart = (row + i) / (2 * run) * run + (row + i) % run;
    }
    // A scale for each row stands where the row does.
    const int64_t scaledRow = scales.groupRows == 1
                                  ? row + i
                                  : part * (scales.perExpert / scales.parts) +
                                        inPart / scales.groupRows;
    readRows(*scales.scales, expert, scales.perExpert, scales.columns,
             scaledRow, 1, bytes, scaleRow);
    if (scales.second) {
      const bool perRow = scales.secondPerRow;
      readRows(*scales.second, expert,
               perRow ? scales.parts * scales.partRows : scales.parts, 1,
               perRow ? row + i : part, 1, bytes, secondScale);
    }
    if (scales.zeroPoints)
      readRows(*scales.zeroPoints, expert, scales.perExpert, scales.columns,
               scaledRow, 1, bytes, zeroRow);
    else
      zeroRow.assign(scales.columns, scales.middle);
    for (int64_t c = 0; c < columns; ++c) {
      const int64_t group =
          scales.index ? int64_t(groups[c]) : c / scales.groupColumns;
      double &value = values[i * columns + c];
      value = (value - zeroRow[group]) * scaleRow[group];
      if (scales.roundsTo)
        value = roundTo(*scales.roundsTo, double(float(value)));
      value *= secondScale[0];
    }
  }
}

void multiply(const std::vector<double> &lhs, int64_t count, int64_t columns,
              const Weight &weight, const WeightScales &scales,
              const Weight *bias, int64_t expert, int64_t rows,
              unsigned threads, std::vector<double> &result, Terms terms) {
  result.resize(count * rows);
  parallelFor(
      rows, columns * (count + 8), threads, [&](int64_t first, int64_t last) {
        constexpr int64_t kChunk = 16;
        std::vector<char> bytes;
        std::vector<double> values, biasValues;
        for (int64_t row = first; row < last; row += kChunk) {
          const int64_t chunk = std::min(kChunk, last - row);
          readRows(weight, expert, rows, columns, row, chunk, bytes, values);
          dequantize(scales, expert, row, columns, bytes, values);
          if (terms == Terms::Squares)
            for (double &value : values)
              value *= value;
          if (bias)
            readRows(*bias, expert, rows, 1, row, chunk, bytes, biasValues);
          for (int64_t p = 0; p < count; ++p)
            for (int64_t n = 0; n < chunk; ++n)
              result[p * rows + row + n] =
                  dot(&lhs[p * columns], &values[n * columns], columns) +
                  (bias ? biasValues[n] : 0.0);
        }
      });
}

bool present(const Weight &weight) {
  return weight.element && (weight.data || weight.read);
}

static constexpr float kLargestE4m3 = 448;

/// Codes that are integers have no NaN, so that a NaN is the largest of their
/// values. Otherwise it does not count.
static float largerOf(const Element &element, float largest, float other) {
  if (!element.isFloat && (std::isnan(largest) || std::isnan(other)))
    return std::numeric_limits<float>::quiet_NaN();
  return std::fmax(largest, other);
}

static float largestOf(const Element &element, const double *values,
                       int64_t count) {
  float largest = 0;
  for (int64_t i = 0; i < count; ++i)
    largest = largerOf(element, largest, float(std::fabs(values[i])));
  return largest;
}

/// A dynamic scale from the largest of the values that share it.
static float scaleFor(const Element &element, const Scaling &scaling,
                      float largest) {
  if (!element.isFloat)
    return (largest < 1e-10f ? 1e-10f : largest) / 127;
  if (scaling.ofTensor())
    return largest == 0 ? 1.0f : largest / kLargestE4m3;
  if (!scaling.rule.empty() && std::isinf(largest))
    return largest;
  if (!scaling.rule.empty())
    return powerFor(element, scaling.rule, largest, scaling.columns);
  return scaling.columns == -1
             ? std::max(largest / kLargestE4m3, 1 / (kLargestE4m3 * 512))
             : std::max(largest, 1e-10f) / kLargestE4m3;
}

std::vector<QuantizedGroup> groupsOf(const Element &element,
                                     const Scaling &scaling, float ofTensor,
                                     const double *values, int64_t count) {
  const int64_t extent = scaling.columns == -1 ? count : scaling.columns;
  std::vector<QuantizedGroup> groups;
  for (int64_t first = 0; first < count; first += extent) {
    QuantizedGroup group;
    group.first = first;
    group.size = std::min(extent, count - first);
    group.scale = ofTensor;
    group.multiplies = scaling.ofTensor();
    const float largest = largestOf(element, values + first, group.size);
    if (!scaling.ofTensor())
      group.scale = scaleFor(element, scaling, largest);
    groups.push_back(group);
  }
  return groups;
}

void quantizeRow(const Element &element, const Scaling &scaling, float ofTensor,
                 double *values, int64_t count) {
  if (!scaling.given)
    return;
  for (const QuantizedGroup &group :
       groupsOf(element, scaling, ofTensor, values, count))
    for (int64_t i = group.first; i < group.first + group.size; ++i)
      values[i] =
          roundTo(element, group.quotient(values[i])) * double(group.scale);
}

/// A static scale of all values: the largest of all experts'.
static float staticScale(const Weight &scales, int64_t experts) {
  std::vector<char> bytes;
  std::vector<double> values;
  readRows(scales, 0, experts, 1, 0, experts, bytes, values);
  return largestOf(*findElement("f32"), values.data(), experts);
}

FirstHalf::FirstHalf(const Layer &layer, const Inputs &inputs,
                     const Routing &routing, unsigned threads)
    : layer(layer), inputs(inputs), routing(routing), threads(threads),
      scales(scalesOf(layer, inputs.w13Scale, inputs.w13SecondScale,
                      inputs.w13ZeroPoint, layer.w1Scaling,
                      layer.w13ScaleRows(), layer.w13ScaleColumns(),
                      layer.gated ? 2 : 1, layer.gateUpRows(), layer.hidden)),
      stride(inputs.x.rowStride ? inputs.x.rowStride : layer.hidden) {
  scales.rowsInTurn = layer.rowsInTurn();
  if (layer.groupIndex)
    scales.index = &inputs.w13GroupIndex;
  if (layer.inputQuantized || layer.part == "down")
    return;
  if (layer.a1Scaling.storesNumber()) {
    xScale = staticScale(inputs.a1Scale, layer.storedExperts());
    return;
  }
  if (!layer.a1Scaling.given || !layer.a1Scaling.ofTensor())
    return;
  float largest = 0;
  const int64_t valid = std::clamp<int64_t>(
      inputs.validTokens.value_or(inputs.tokens), 0, inputs.tokens);
  std::vector<double> row(layer.hidden);
  const int64_t pairs = layer.pairsOfToken();
  const int64_t step = layer.weightOnInput ? 1 : pairs;
  for (int64_t pair = 0; pair < valid * pairs; pair += step) {
    if (!isRow(layer, inputs, pair / pairs))
      continue;
    readPair(pair, row.data());
    largest = largerOf(*layer.a1, largest,
                       largestOf(*layer.a1, row.data(), layer.hidden));
  }
  xScale = scaleFor(*layer.a1, layer.a1Scaling, largest);
}

void FirstHalf::readToken(int64_t token, double *row) {
  loadMany(*inputs.x.element,
           static_cast<const char *>(inputs.x.data) +
               inputs.x.element->bytesOf(token * stride),
           layer.hidden, row);
}

void FirstHalf::readPair(int64_t pair, double *row) {
  readToken(pair / layer.pairsOfToken(), row);
  if (layer.weightOnInput)
    for (int64_t c = 0; c < layer.hidden; ++c)
      row[c] = float(row[c] * double(routing.weights[pair]));
  // To what is multiplied, if it is not quantized.
  if (!layer.a1Scaling.given &&
      (layer.weightOnInput || layer.a1 != layer.inputType))
    for (int64_t c = 0; c < layer.hidden; ++c)
      row[c] = roundTo(*layer.a1, row[c]);
}

void FirstHalf::quantize(int64_t pair, QuantizedX &to) {
  std::vector<double> row(layer.hidden);
  readPair(pair, row.data());
  for (const QuantizedGroup &group :
       groupsOf(*layer.a1, layer.a1Scaling, xScale, row.data(), layer.hidden)) {
    to.scales.push_back(group.scale);
    for (int64_t i = group.first; i < group.first + group.size; ++i)
      to.codes.push_back(roundTo(*layer.a1, group.quotient(row[i])));
  }
}

void FirstHalf::scaleToken(int64_t token, double *row) {
  const Scaling &scaling = layer.a1Scaling;
  const int64_t group = scaling.columns == -1 ? layer.hidden : scaling.columns;
  const int64_t groups = (layer.hidden + group - 1) / group;
  const Matrix &second = inputs.xSecondScale;
  const double outer = second.data ? load(*second.element, second.data,
                                          scaling.secondPerRow ? token : 0)
                                   : 1;
  for (int64_t c = 0; c < layer.hidden; ++c) {
    row[c] *= load(*inputs.xScale.element, inputs.xScale.data,
                   scaling.ofTensor() ? 0 : token * groups + c / group);
    // Products are f32 and then 16 bits if no engine multiplies codes.
    if (layer.computeType)
      row[c] = roundTo(*layer.computeType,
                       double(float(double(float(row[c])) * outer)));
  }
}

void FirstHalf::run(int64_t expert, const std::vector<int64_t> &pairs,
                    std::vector<double> &t) {
  const int64_t count = int64_t(pairs.size()), gateUp = layer.gateUpRows();
  const int64_t intermediate = layer.intermediate;
  if (const Matrix &given = inputs.intermediate; given.data) {
    t.resize(count * intermediate);
    for (int64_t p = 0; p < count; ++p)
      for (int64_t i = 0; i < intermediate; ++i)
        t[p * intermediate + i] =
            load(*given.element, given.data, pairs[p] * intermediate + i);
    return;
  }
  x.resize(count * layer.hidden);
  const auto forPairs = [&](int64_t steps, const auto &body) {
    parallelFor(count, steps, threads, [&](int64_t first, int64_t last) {
      for (int64_t p = first; p < last; ++p)
        body(p);
    });
  };
  // Some ten steps of a multiply to round a value.
  forPairs(10 * layer.hidden, [&](int64_t p) {
    double *row = &x[p * layer.hidden];
    const int64_t token = pairs[p] / layer.pairsOfToken();
    readPair(pairs[p], row);
    if (layer.inputQuantized)
      scaleToken(token, row);
    else if (layer.a1Scaling.given && layer.computeType)
      emulateRow(*layer.a1, layer.a1Scaling, xScale, *layer.computeType, row,
                 layer.hidden);
    else
      quantizeRow(*layer.a1, layer.a1Scaling, xScale, row, layer.hidden);
  });
  multiply(x, count, layer.hidden, inputs.w13, scales,
           layer.hasBias ? &inputs.b13 : nullptr, expert, gateUp, threads, h);
  // Gates before ups, however they are stored.
  if (const Matrix &addend = inputs.gateUpAddend; addend.data)
    for (int64_t p = 0; p < count; ++p)
      for (int64_t n = 0; n < gateUp; ++n)
        h[p * gateUp + layer.storedRow(n >= intermediate, n % intermediate)] +=
            load(*addend.element, addend.data, pairs[p] * gateUp + n);
  const ActivationNumbers numbers = numbersOf(layer, inputs, expert);
  t.resize(count * intermediate);
  forPairs(10 * intermediate, [&](int64_t p) {
    const double *row = &h[p * gateUp];
    for (int64_t i = 0; i < intermediate; ++i) {
      double value = activate(layer, numbers, row[layer.storedRow(false, i)]);
      if (layer.gated)
        value *= carry(layer, numbers, row[layer.storedRow(true, i)]);
      t[p * intermediate + i] = value;
    }
  });
}

void FirstHalf::run(int64_t expert, const std::vector<int64_t> &pairs,
                    double error, std::vector<double> &t,
                    std::vector<double> &uncertainty) {
  run(expert, pairs, t);
  const int64_t count = int64_t(pairs.size()), gateUp = layer.gateUpRows();
  const int64_t intermediate = layer.intermediate;
  for (double &value : x)
    value *= value;
  multiply(x, count, layer.hidden, inputs.w13, scales, nullptr, expert, gateUp,
           threads, squares, Terms::Squares);
  const ActivationNumbers numbers = numbersOf(layer, inputs, expert);
  uncertainty.resize(count * intermediate);
  for (int64_t p = 0; p < count; ++p)
    for (int64_t i = 0; i < intermediate; ++i) {
      const int64_t gate = p * gateUp + layer.storedRow(false, i);
      const double value = activate(layer, numbers, h[gate]);
      const double off = error * std::sqrt(squares[gate]);
      double moves =
          std::max(std::fabs(activate(layer, numbers, h[gate] + off) - value),
                   std::fabs(activate(layer, numbers, h[gate] - off) - value));
      // Gate and up are sums of their own, off independently.
      if (layer.gated) {
        const int64_t up = p * gateUp + layer.storedRow(true, i);
        const double carried = carry(layer, numbers, h[up]);
        const double upOff = error * std::sqrt(squares[up]);
        const double upMoves =
            std::max(std::fabs(carry(layer, numbers, h[up] + upOff) - carried),
                     std::fabs(carry(layer, numbers, h[up] - upOff) - carried));
        // The C library's hypot of two is newer than glibc 2.34.
        moves = std::hypot(moves * carried, value * upMoves, 0.0);
      }
      uncertainty[p * intermediate + i] = moves;
    }
}

ScaleOfT scaleOfT(const Layer &layer, const Inputs &inputs,
                  const Routing &routing, FirstHalf &firstHalf) {
  ScaleOfT result;
  if (layer.a2Scaling.storesNumber()) {
    result.scale = staticScale(inputs.a2Scale, layer.storedExperts());
    return result;
  }
  if (!layer.a2Scaling.given || !layer.a2Scaling.ofTensor())
    return result;
  // Every row of every expert counts, not only those that are asked for.
  std::vector<std::vector<int64_t>> pairs(layer.localExperts);
  for (int64_t pair = 0; pair < routing.tokens * routing.pairs; ++pair) {
    const int64_t local = routing.locals[pair];
    if (local >= 0)
      pairs[local].push_back(pair);
  }
  float largest = 0;
  std::vector<double> t;
  Progress progress("reference: experts that decide a scale",
                    layer.localExperts);
  for (int64_t expert = 0; expert < layer.localExperts;
       ++expert, progress.advance()) {
    firstHalf.run(expert, pairs[expert], t);
    for (size_t p = 0; p < pairs[expert].size(); ++p) {
      const float ofRow =
          largestOf(*layer.a2, &t[p * layer.intermediate], layer.intermediate);
      if (ofRow <= largest || std::isnan(largest))
        continue;
      largest = ofRow;
      result.expert = expert;
      result.pair = pairs[expert][p];
    }
  }
  result.scale = scaleFor(*layer.a2, layer.a2Scaling, largest);
  return result;
}

} // namespace moec::reference
