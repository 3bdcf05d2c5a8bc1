//===- Reference.cpp - the layer in double precision ----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The two matmuls, the activation and the weighted sum, expert by expert, for
// the tokens in a list. Threads share the rows of a weight; each row is read
// once and multiplied with every token of the expert.
//
//===----------------------------------------------------------------------===//

#include "test/reference/Reference.h"
#include "test/reference/TestData.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace moec::reference {

namespace {

/// One token's turn with one expert.
struct Pair {
  int64_t row;   ///< in the list
  double weight; ///< of the router
};

double activate(const Layer &layer, double g) {
  if (layer.function == "silu")
    return g / (1 + std::exp(-g));
  if (layer.function == "gelu")
    return 0.5 * g * (1 + std::erf(g / std::numbers::sqrt2));
  return 0.5 * g *
         (1 + std::tanh(std::sqrt(2 / std::numbers::pi) *
                        (g + 0.044715 * g * g * g)));
}

/// Several sums side by side: the compiler may not reorder one sum.
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

/// Scales of a weight, and how many of its rows and columns share one.
struct WeightScales {
  const Weight *scales = nullptr; ///< null: none
  int64_t perExpert = 0, columns = 0;
  int64_t parts = 1, partRows = 0; ///< quantized apart
  int64_t groupRows = 0, groupColumns = 0;
};

WeightScales scalesOf(const Weight &scales, const Scaling &scaling,
                      int64_t perExpert, int64_t scaleColumns, int64_t parts,
                      int64_t rows, int64_t columns) {
  WeightScales result;
  if (!scaling.given)
    return result;
  result.scales = &scales;
  result.perExpert = perExpert;
  result.columns = scaleColumns;
  result.parts = parts;
  result.partRows = rows / parts;
  result.groupRows = scaling.rows == -1 ? result.partRows : scaling.rows;
  result.groupColumns = scaling.columns == -1 ? columns : scaling.columns;
  return result;
}

/// Reads rows of a weight of one expert as doubles.
void readRows(const Weight &weight, int64_t expert, int64_t rowsPerExpert,
              int64_t columns, int64_t row, int64_t rows,
              std::vector<char> &bytes, std::vector<double> &values) {
  values.resize(rows * columns);
  const void *source;
  if (weight.read) {
    bytes.resize(rows * columns * weight.element->bytes);
    weight.read(expert, row, rows, bytes.data());
    source = bytes.data();
  } else {
    source = static_cast<const char *>(weight.data) +
             (expert * rowsPerExpert + row) * columns * weight.element->bytes;
  }
  loadMany(*weight.element, source, rows * columns, values.data());
}

/// Multiplies rows [row, ...) of a weight, `values`, by their scales.
void dequantize(const WeightScales &scales, int64_t expert, int64_t row,
                int64_t columns, std::vector<char> &bytes,
                std::vector<double> &values) {
  std::vector<double> scaleRow;
  for (int64_t i = 0; i < int64_t(values.size()) / columns; ++i) {
    const int64_t part = (row + i) / scales.partRows;
    const int64_t inPart = (row + i) % scales.partRows;
    readRows(*scales.scales, expert, scales.perExpert, scales.columns,
             part * (scales.perExpert / scales.parts) +
                 inPart / scales.groupRows,
             1, bytes, scaleRow);
    for (int64_t c = 0; c < columns; ++c)
      values[i * columns + c] *= scaleRow[c / scales.groupColumns];
  }
}

/// result[p][n] = sum over c of lhs[p][c] * weight[n][c], + bias[n].
void multiply(const std::vector<double> &lhs, int64_t count, int64_t columns,
              const Weight &weight, const WeightScales &scales,
              const Weight *bias, int64_t expert, int64_t rows,
              unsigned threads, std::vector<double> &result) {
  result.resize(count * rows);
  parallelFor(rows, threads, [&](int64_t first, int64_t last) {
    constexpr int64_t kChunk = 16;
    std::vector<char> bytes;
    std::vector<double> values, biasValues;
    for (int64_t row = first; row < last; row += kChunk) {
      const int64_t chunk = std::min(kChunk, last - row);
      readRows(weight, expert, rows, columns, row, chunk, bytes, values);
      if (scales.scales)
        dequantize(scales, expert, row, columns, bytes, values);
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

constexpr float kLargestE4m3 = 448;

float largestOf(const double *values, int64_t count) {
  float largest = 0;
  for (int64_t i = 0; i < count; ++i)
    largest = std::fmax(largest, float(std::fabs(values[i])));
  return largest;
}

/// Replaces a row by what its quantized values stand for. The scales are f32,
/// as devices compute them. `ofTensor`: the scale of all values.
void quantizeRow(const Element &element, const Scaling &scaling, float ofTensor,
                 double *values, int64_t count) {
  if (!scaling.given)
    return;
  const int64_t group = scaling.columns == -1 ? count : scaling.columns;
  for (int64_t first = 0; first < count; first += group) {
    const int64_t size = std::min(group, count - first);
    const float largest = largestOf(values + first, size);
    const float inverse = 1.0f / ofTensor;
    float scale = ofTensor;
    if (!scaling.ofTensor())
      scale = scaling.columns == -1
                  ? std::max(largest / kLargestE4m3, 1 / (kLargestE4m3 * 512))
                  : std::max(largest, 1e-10f) / kLargestE4m3;
    for (int64_t i = first; i < first + size; ++i) {
      const float value = float(values[i]);
      const float scaled = scaling.ofTensor() ? value * inverse : value / scale;
      values[i] = roundTo(element, double(scaled)) * double(scale);
    }
  }
}

/// A dynamic scale of all values from the largest of them.
float tensorScale(float largest) {
  return largest == 0 ? 1.0f : largest / kLargestE4m3;
}

/// A static scale of all values: the largest of all experts'.
float staticScale(const Weight &scales, int64_t experts) {
  std::vector<char> bytes;
  std::vector<double> values;
  readRows(scales, 0, experts, 1, 0, experts, bytes, values);
  return largestOf(values.data(), experts);
}

/// Everything from x to what the second matmul reads, unquantized.
class FirstHalf {
public:
  FirstHalf(const Layer &layer, const Inputs &inputs, unsigned threads)
      : layer(layer), inputs(inputs), threads(threads),
        scales(scalesOf(inputs.w13Scale, layer.w1Scaling, layer.w13ScaleRows(),
                        layer.w13ScaleColumns(), layer.gated ? 2 : 1,
                        layer.gateUpRows(), layer.hidden)),
        stride(inputs.x.rowStride ? inputs.x.rowStride : layer.hidden) {
    if (!layer.a1Scaling.given || !layer.a1Scaling.ofTensor())
      return;
    if (!layer.a1Scaling.dynamic) {
      xScale = staticScale(inputs.a1Scale, layer.experts);
      return;
    }
    float largest = 0;
    const int64_t valid = std::clamp<int64_t>(
        inputs.validTokens.value_or(inputs.tokens), 0, inputs.tokens);
    std::vector<double> row(layer.hidden);
    for (int64_t token = 0; token < valid; ++token) {
      readToken(token, row.data());
      largest = std::max(largest, largestOf(row.data(), layer.hidden));
    }
    xScale = tensorScale(largest);
  }

  /// t [tokens.size(), I] of one local expert.
  void run(int64_t expert, const std::vector<int64_t> &tokens,
           std::vector<double> &t) {
    const int64_t count = int64_t(tokens.size()), gateUp = layer.gateUpRows();
    const int64_t intermediate = layer.intermediate;
    x.resize(count * layer.hidden);
    for (int64_t p = 0; p < count; ++p) {
      double *row = &x[p * layer.hidden];
      readToken(tokens[p], row);
      quantizeRow(*layer.a1, layer.a1Scaling, xScale, row, layer.hidden);
    }
    multiply(x, count, layer.hidden, inputs.w13, scales,
             layer.hasBias ? &inputs.b13 : nullptr, expert, gateUp, threads, h);
    t.resize(count * intermediate);
    for (int64_t p = 0; p < count; ++p)
      for (int64_t i = 0; i < intermediate; ++i) {
        double value = activate(layer, h[p * gateUp + i]);
        if (layer.gated)
          value *= h[p * gateUp + intermediate + i];
        t[p * intermediate + i] = value;
      }
  }

private:
  void readToken(int64_t token, double *row) {
    loadMany(*inputs.x.element,
             static_cast<const char *>(inputs.x.data) +
                 token * stride * inputs.x.element->bytes,
             layer.hidden, row);
  }

  const Layer &layer;
  const Inputs &inputs;
  unsigned threads;
  WeightScales scales;
  int64_t stride;
  float xScale = 1;
  std::vector<double> x, h;
};

/// The scale of all of t.
float scaleOfT(const Layer &layer, const Inputs &inputs, const Routing &routing,
               FirstHalf &firstHalf) {
  if (!layer.a2Scaling.given || !layer.a2Scaling.ofTensor())
    return 1;
  if (!layer.a2Scaling.dynamic)
    return staticScale(inputs.a2Scale, layer.experts);
  // Every row of every expert counts, not only those that are asked for.
  std::vector<std::vector<int64_t>> tokens(layer.localExperts);
  for (int64_t pair = 0; pair < routing.tokens * routing.topK; ++pair) {
    const int64_t local = routing.ids[pair] - layer.localBegin;
    if (routing.ids[pair] >= 0 && local >= 0 && local < layer.localExperts)
      tokens[local].push_back(pair / routing.topK);
  }
  float largest = 0;
  std::vector<double> t;
  for (int64_t expert = 0; expert < layer.localExperts; ++expert) {
    firstHalf.run(expert, tokens[expert], t);
    largest = std::max(largest, largestOf(t.data(), int64_t(t.size())));
  }
  return tensorScale(largest);
}

} // namespace

Result<std::vector<double>> compute(const Layer &layer, const Inputs &inputs,
                                    const Routing &routing,
                                    const std::vector<int64_t> &list,
                                    unsigned threads) {
  auto invalid = [](std::string text) {
    return Error{ErrorCode::InvalidArgument, std::move(text)};
  };
  for (int64_t token : list)
    if (token < 0 || token >= inputs.tokens || token >= routing.tokens)
      return invalid("token " + std::to_string(token) + " does not exist");
  if (!list.empty() && (!inputs.x.data || inputs.x.element != layer.inputType))
    return invalid("x is missing or not of the layer's input_type");
  if (!present(inputs.w13) || !present(inputs.w2))
    return invalid("w13 and w2 are needed");
  if (layer.hasBias && (!present(inputs.b13) || !present(inputs.b2)))
    return invalid("b13 and b2 are needed: the layer has biases");

  if (layer.w1Scaling.given &&
      (!present(inputs.w13Scale) || !present(inputs.w2Scale)))
    return invalid("w13_scale and w2_scale are needed: the layer is quantized");
  for (auto [scaling, scale] : {std::pair(&layer.a1Scaling, &inputs.a1Scale),
                                std::pair(&layer.a2Scaling, &inputs.a2Scale)})
    if (scaling->given && !scaling->dynamic && !present(*scale))
      return invalid("a1_scale and a2_scale are needed: they are static");

  const int64_t hidden = layer.hidden, intermediate = layer.intermediate;
  std::vector<std::vector<Pair>> pairs(layer.localExperts);
  for (size_t row = 0; row < list.size(); ++row)
    for (int64_t k = 0; k < routing.topK; ++k) {
      const int64_t pair = list[row] * routing.topK + k;
      const int64_t local = routing.ids[pair] - layer.localBegin;
      if (routing.ids[pair] >= 0 && local >= 0 && local < layer.localExperts)
        pairs[local].push_back({int64_t(row), routing.weights[pair]});
    }

  std::vector<double> out(list.size() * hidden, 0.0);
  FirstHalf firstHalf(layer, inputs, threads);
  const float tScale = scaleOfT(layer, inputs, routing, firstHalf);
  const WeightScales scales =
      scalesOf(inputs.w2Scale, layer.w2Scaling, layer.w2ScaleRows(),
               layer.w2ScaleColumns(), 1, hidden, intermediate);
  std::vector<double> t, y;
  std::vector<int64_t> tokens;
  for (int64_t expert = 0; expert < layer.localExperts; ++expert) {
    const std::vector<Pair> &mine = pairs[expert];
    const int64_t count = int64_t(mine.size());
    if (count == 0)
      continue;
    tokens.clear();
    for (const Pair &pair : mine)
      tokens.push_back(list[pair.row]);
    firstHalf.run(expert, tokens, t);
    for (int64_t p = 0; p < count; ++p) {
      double *row = &t[p * intermediate];
      if (layer.a2Scaling.given)
        quantizeRow(*layer.a2, layer.a2Scaling, tScale, row, intermediate);
      else
        for (int64_t i = 0; i < intermediate; ++i)
          row[i] = roundTo(*layer.a2, row[i]);
    }
    multiply(t, count, intermediate, inputs.w2, scales,
             layer.hasBias && layer.addW2Bias ? &inputs.b2 : nullptr, expert,
             hidden, threads, y);
    for (int64_t p = 0; p < count; ++p)
      for (int64_t n = 0; n < hidden; ++n)
        out[mine[p].row * hidden + n] += mine[p].weight * y[p * hidden + n];
  }
  return out;
}

std::vector<double> roundOutput(const Layer &layer, std::vector<double> rows) {
  for (double &value : rows)
    value = roundTo(*layer.outputType, value);
  return rows;
}

} // namespace moec::reference
