//===- FirstHalf.h - from x to the intermediate -----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The code that Reference.cpp and Rounding.cpp share: weights dequantized,
// matmuls, quantized rows, and the layer up to what the second matmul reads.
// Internal to the reference.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_REFERENCE_FIRSTHALF_H
#define MOEC_TEST_REFERENCE_FIRSTHALF_H

#include "test/reference/Reference.h"

namespace moec::reference {

/// Several sums side by side: the compiler may not reorder one sum.
double dot(const double *a, const double *b, int64_t count);

/// One token's turn with one expert.
struct Pair {
  int64_t row;   ///< in the list
  int64_t pair;  ///< of all tokens
  double weight; ///< of its output in the sum
};

/// The pairs of the tokens in `list` by local expert.
std::vector<std::vector<Pair>> pairsOf(const Layer &layer,
                                       const Routing &routing,
                                       const std::vector<int64_t> &list);

/// Scales of a weight, and how many of its rows and columns share one.
struct WeightScales {
  const Weight *scales = nullptr; ///< null: none
  const Weight *second = nullptr; ///< of each part or row; null: none
  bool secondPerRow = false;
  const Weight *zeroPoints = nullptr; ///< beside the scales; null: `middle`
  double middle = 0;
  const Weight *index = nullptr; ///< the group of each column; null: in order
  int64_t perExpert = 0, columns = 0;
  int64_t parts = 1, partRows = 0; ///< quantized apart
  int64_t rowsInTurn = 0; ///< after which both parts alternate; 0: they do not
  int64_t groupRows = 0, groupColumns = 0;
  const Element *roundsTo = nullptr; ///< of weights alone: what is multiplied
};

/// The scales of the second matmul's weight.
WeightScales scalesOfW2(const Layer &layer, const Inputs &inputs);

/// Reads rows of a weight of one expert as doubles, not dequantized.
void readRows(const Weight &weight, int64_t expert, int64_t rowsPerExpert,
              int64_t columns, int64_t row, int64_t rows,
              std::vector<char> &bytes, std::vector<double> &values);

/// Rows [row, ...) of a weight, `values`, less their zero points and times
/// their scales, if any.
void dequantize(const WeightScales &scales, int64_t expert, int64_t row,
                int64_t columns, std::vector<char> &bytes,
                std::vector<double> &values);

/// The term that multiply adds for each product: itself, or its square.
enum class Terms { Products, Squares };

/// result[p][n] = sum over c of lhs[p][c] * weight[n][c], + bias[n].
void multiply(const std::vector<double> &lhs, int64_t count, int64_t columns,
              const Weight &weight, const WeightScales &scales,
              const Weight *bias, int64_t expert, int64_t rows,
              unsigned threads, std::vector<double> &result,
              Terms terms = Terms::Products);

bool present(const Weight &weight);

/// The columns of a row that share a scale, and the scale in f32, as on
/// devices.
struct QuantizedGroup {
  int64_t first = 0, size = 0;
  float scale = 1;
  bool multiplies = false; ///< by the scale's inverse, in place of dividing
  /// A value as it is before it is rounded to the element type.
  double quotient(double value) const {
    return multiplies ? double(float(value) * (1.0f / scale))
                      : double(float(value) / scale);
  }
};

/// Groups of a row of `count` values that become `element`. `ofTensor`: the
/// scale of all values.
std::vector<QuantizedGroup> groupsOf(const Element &element,
                                     const Scaling &scaling, float ofTensor,
                                     const double *values, int64_t count);

/// Replaces a row by what its quantized values stand for.
void quantizeRow(const Element &element, const Scaling &scaling, float ofTensor,
                 double *values, int64_t count);

/// The largest finite number of a format; of an integer, of symmetric codes.
double largestNumber(const Element &element);

/// The power of two by which `count` values are scaled, of which the largest
/// magnitude is `largest`, by a rule of f8E8M0FNU.
float powerFor(const Element &element, const std::string &rule, float largest,
               int64_t count);

/// Replaces a row by what its quantized values stand for, rounded to `compute`.
/// `ofAll`: a static scale, the scale of all values, or the stored scale of
/// scales.
void emulateRow(const Element &element, const Scaling &scaling, float ofAll,
                const Element &compute, double *values, int64_t count);

/// Names of the functions that the reference knows.
std::vector<std::string_view> activationFunctions();

/// The activation's parameters for a local expert.
ActivationNumbers numbersOf(const Layer &layer, const Inputs &inputs,
                            int64_t expert);

/// Everything from x to what the second matmul reads, unquantized.
class FirstHalf {
public:
  FirstHalf(const Layer &layer, const Inputs &inputs, const Routing &routing,
            unsigned threads);

  /// t [pairs.size(), I] of one local expert, of pairs of all tokens.
  void run(int64_t expert, const std::vector<int64_t> &pairs,
           std::vector<double> &t);
  /// And by how much each of t may be off (`uncertainty`, same shape) where a
  /// sum of the first matmul is off by `error` times the root of the sum of
  /// the squares of its products.
  void run(int64_t expert, const std::vector<int64_t> &pairs, double error,
           std::vector<double> &t, std::vector<double> &uncertainty);
  /// Appends the codes and scales of a pair's row of x, which is not emulated.
  void quantize(int64_t pair, QuantizedX &to);

private:
  void readToken(int64_t token, double *row);
  /// A token's row as its pair has it: multiplied by a weight on the input.
  void readPair(int64_t pair, double *row);
  /// Multiplies a quantized row by the scales that came with it.
  void scaleToken(int64_t token, double *row);

  const Layer &layer;
  const Inputs &inputs;
  const Routing &routing;
  unsigned threads;
  WeightScales scales;
  int64_t stride;
  float xScale = 1;
  std::vector<double> x, h, squares;
};

/// The scale of all of t, and where its largest magnitude stands.
struct ScaleOfT {
  float scale = 1;
  int64_t expert = -1, pair = -1; ///< -1: not computed from t
};
ScaleOfT scaleOfT(const Layer &layer, const Inputs &inputs,
                  const Routing &routing, FirstHalf &firstHalf);

} // namespace moec::reference

#endif // MOEC_TEST_REFERENCE_FIRSTHALF_H
