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

/// result[p][n] = sum over c of lhs[p][c] * weight[n][c], + bias[n].
void multiply(const std::vector<double> &lhs, int64_t count, int64_t columns,
              const Weight &weight, const Weight *bias, int64_t expert,
              int64_t rows, unsigned threads, std::vector<double> &result) {
  result.resize(count * rows);
  parallelFor(rows, threads, [&](int64_t first, int64_t last) {
    constexpr int64_t kChunk = 16;
    std::vector<char> bytes;
    std::vector<double> values, biasValues;
    for (int64_t row = first; row < last; row += kChunk) {
      const int64_t chunk = std::min(kChunk, last - row);
      readRows(weight, expert, rows, columns, row, chunk, bytes, values);
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

  const int64_t hidden = layer.hidden, intermediate = layer.intermediate;
  const int64_t gateUp = layer.gateUpRows();
  std::vector<std::vector<Pair>> pairs(layer.localExperts);
  for (size_t row = 0; row < list.size(); ++row)
    for (int64_t k = 0; k < routing.topK; ++k) {
      const int64_t pair = list[row] * routing.topK + k;
      const int64_t local = routing.ids[pair] - layer.localBegin;
      if (routing.ids[pair] >= 0 && local >= 0 && local < layer.localExperts)
        pairs[local].push_back({int64_t(row), routing.weights[pair]});
    }

  std::vector<double> out(list.size() * hidden, 0.0);
  const int64_t xStride = inputs.x.rowStride ? inputs.x.rowStride : hidden;
  std::vector<double> x, h, t, y;
  for (int64_t expert = 0; expert < layer.localExperts; ++expert) {
    const std::vector<Pair> &mine = pairs[expert];
    const int64_t count = int64_t(mine.size());
    if (count == 0)
      continue;
    x.resize(count * hidden);
    for (int64_t p = 0; p < count; ++p)
      loadMany(*inputs.x.element,
               static_cast<const char *>(inputs.x.data) +
                   list[mine[p].row] * xStride * inputs.x.element->bytes,
               hidden, &x[p * hidden]);
    multiply(x, count, hidden, inputs.w13,
             layer.hasBias ? &inputs.b13 : nullptr, expert, gateUp, threads, h);
    t.resize(count * intermediate);
    for (int64_t p = 0; p < count; ++p)
      for (int64_t i = 0; i < intermediate; ++i) {
        double value = activate(layer, h[p * gateUp + i]);
        if (layer.gated)
          value *= h[p * gateUp + intermediate + i];
        t[p * intermediate + i] = roundTo(*layer.a2, value);
      }
    multiply(t, count, intermediate, inputs.w2,
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
