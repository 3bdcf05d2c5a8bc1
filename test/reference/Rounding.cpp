//===- Rounding.cpp - quantized values beside a boundary ------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Candidates expert by expert; then each row by itself: as long as one of its
// candidates brings the reference closer to the output, the best is taken.
//
//===----------------------------------------------------------------------===//

#include "test/reference/Rounding.h"
#include "runtime/support/Progress.h"
#include "test/reference/FirstHalf.h"
#include "test/reference/TestData.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

namespace moec::reference {

namespace {

/// A value of the intermediate that may be rounded to a neighbour.
struct Candidate {
  int64_t expert, column;
  double move; ///< of the dequantized value, times the router's weight
};

/// The quotient's neighbour that an error of `off` may reach, less what it is
/// rounded to; 0 where there is none. Where both neighbours are in reach, steps
/// are smaller than the error and count as part of it.
double stepAcross(const Element &element, double quotient, double off) {
  const double here = roundTo(element, quotient);
  const bool below = roundTo(element, quotient - off) < here;
  const bool above = roundTo(element, quotient + off) > here;
  if (below == above)
    return 0;
  return roundTo(element, above ? quotient + off : quotient - off) - here;
}

/// The error of a quotient, however exact its sums are: it, the value and the
/// scale are each rounded to f32. If an activation clamps, many values are the
/// same part of the largest, and may be at a boundary all at once.
constexpr double kRoundedToFloat = 0x1p-22;

/// Appends the candidates of one row of t.
void findCandidates(const Layer &layer, const ScaleOfT &scaleOfAll,
                    double uncertaintyOfScale, const double *t,
                    const double *uncertainty, int64_t expert,
                    double routerWeight, std::vector<Candidate> &found) {
  for (const QuantizedGroup &group :
       groupsOf(*layer.a2, layer.a2Scaling, scaleOfAll.scale, t,
                layer.intermediate)) {
    // A scale that is computed moves with the value that it is computed from.
    // A power of two stays.
    double ofScale = uncertaintyOfScale;
    if (layer.a2Scaling.dynamic && !layer.a2Scaling.ofTensor() &&
        layer.a2Scaling.rule.empty()) {
      int64_t largest = group.first;
      for (int64_t i = group.first; i < group.first + group.size; ++i)
        if (std::fabs(t[i]) > std::fabs(t[largest]))
          largest = i;
      if (t[largest] != 0)
        ofScale = uncertainty[largest] / std::fabs(t[largest]);
    }
    for (int64_t i = group.first; i < group.first + group.size; ++i) {
      const double quotient = group.quotient(t[i]);
      const double off =
          std::hypot(uncertainty[i] / double(group.scale), quotient * ofScale,
                     quotient * kRoundedToFloat);
      const double step = stepAcross(*layer.a2, quotient, off);
      if (step != 0)
        found.push_back({expert, i, step * double(group.scale) * routerWeight});
    }
  }
}

/// By what each candidate moves a row of the output: [candidates, H].
std::vector<double> movesOf(const Layer &layer, const Inputs &inputs,
                            const WeightScales &scales,
                            const std::vector<Candidate> &candidates) {
  std::vector<double> moves(candidates.size() * layer.hidden), values;
  std::vector<char> bytes;
  for (size_t first = 0, last = 0; first < candidates.size(); first = last) {
    const int64_t expert = candidates[first].expert;
    while (last < candidates.size() && candidates[last].expert == expert)
      ++last;
    constexpr int64_t kChunk = 16;
    for (int64_t row = 0; row < layer.hidden; row += kChunk) {
      const int64_t chunk = std::min(kChunk, layer.hidden - row);
      readRows(inputs.w2, expert, layer.hidden, layer.intermediate, row, chunk,
               bytes, values);
      dequantize(scales, expert, row, layer.intermediate, bytes, values);
      for (size_t c = first; c < last; ++c)
        for (int64_t n = 0; n < chunk; ++n)
          moves[c * layer.hidden + row + n] =
              candidates[c].move *
              values[n * layer.intermediate + candidates[c].column];
    }
  }
  return moves;
}

/// Takes moves of at least `least`, squared, as long as they bring `row` closer
/// to `out`.
Adopted takeBest(std::vector<double> &moves, int64_t columns, double least,
                 const double *out, double *row) {
  std::vector<double> left(columns), along, size;
  for (int64_t c = 0; c < columns; ++c)
    left[c] = out[c] - row[c];
  Adopted adopted;
  int64_t &count = adopted.candidates;
  for (size_t at = 0; at < moves.size(); at += columns) {
    const double square = dot(&moves[at], &moves[at], columns);
    if (square == 0 || square < least)
      continue;
    std::copy_n(&moves[at], columns, &moves[count++ * columns]);
    along.push_back(dot(&moves[at], left.data(), columns));
    size.push_back(square);
  }
  for (;; ++adopted.taken) {
    int64_t best = -1;
    double most = 0; // what the square of the error falls by; NaN never
    for (int64_t i = 0; i < count; ++i)
      if (2 * along[i] - size[i] > most) {
        most = 2 * along[i] - size[i];
        best = i;
      }
    if (best < 0)
      return adopted;
    const double *move = &moves[best * columns];
    for (int64_t c = 0; c < columns; ++c)
      row[c] += move[c];
    for (int64_t i = 0; i < count; ++i)
      along[i] -= dot(&moves[i * columns], move, columns);
    along[best] = -std::numeric_limits<double>::infinity(); // once
  }
}

} // namespace

Result<Adopted> adoptRoundings(const Layer &layer, const Inputs &inputs,
                               const Routing &routing,
                               const std::vector<int64_t> &list, double error,
                               double bound, const void *out,
                               const Element &element, int64_t rowStride,
                               std::vector<double> &rows, unsigned threads) {
  Adopted adopted;
  const int64_t hidden = layer.hidden, intermediate = layer.intermediate;
  if (rows.size() != list.size() * size_t(hidden))
    return Error{
        ErrorCode::InvalidArgument,
        std::to_string(list.size()) + " tokens of " + std::to_string(hidden) +
            " columns need " + std::to_string(list.size() * size_t(hidden)) +
            " values of the reference, not " + std::to_string(rows.size())};
  if (!layer.a2Scaling.given || list.empty())
    return adopted;

  FirstHalf firstHalf(layer, inputs, routing, threads);
  const ScaleOfT scaleOfAll = scaleOfT(layer, inputs, routing, firstHalf);
  std::vector<double> t, uncertainty;
  double uncertaintyOfScale = 0;
  if (scaleOfAll.expert >= 0) {
    firstHalf.run(scaleOfAll.expert, {scaleOfAll.pair}, error, t, uncertainty);
    int64_t largest = 0;
    for (int64_t i = 0; i < intermediate; ++i)
      if (std::fabs(t[i]) > std::fabs(t[largest]))
        largest = i;
    uncertaintyOfScale = uncertainty[largest] / std::fabs(t[largest]);
  }

  const std::vector<std::vector<Pair>> pairs = pairsOf(layer, routing, list);
  std::vector<std::vector<Candidate>> candidates(list.size());
  std::vector<int64_t> ofExpert;
  Progress progress("reference: experts searched for roundings",
                    layer.localExperts);
  for (int64_t expert = 0; expert < layer.localExperts;
       ++expert, progress.advance()) {
    if (pairs[expert].empty())
      continue;
    ofExpert.clear();
    for (const Pair &pair : pairs[expert])
      ofExpert.push_back(pair.pair);
    firstHalf.run(expert, ofExpert, error, t, uncertainty);
    for (size_t p = 0; p < pairs[expert].size(); ++p)
      findCandidates(layer, scaleOfAll, uncertaintyOfScale,
                     &t[p * intermediate], &uncertainty[p * intermediate],
                     expert, pairs[expert][p].weight,
                     candidates[pairs[expert][p].row]);
  }

  const WeightScales scales = scalesOfW2(layer, inputs);
  const double values = double(layer.topK) * double(intermediate);
  std::atomic<int64_t> count = 0, taken = 0;
  size_t known = list.size();
  for (const auto &ofRow : candidates)
    known += ofRow.size();
  // Each is made, and looked at some times, for all columns.
  const int64_t steps =
      8 * hidden * int64_t(known / std::max<size_t>(list.size(), 1));
  parallelFor("reference: tokens compared with roundings", int64_t(list.size()),
              steps, threads, [&](int64_t first, int64_t last) {
                std::vector<double> observed(hidden);
                for (int64_t i = first; i < last; ++i) {
                  double *row = &rows[i * hidden];
                  for (int64_t c = 0; c < hidden; ++c)
                    observed[c] = load(element, out, list[i] * rowStride + c);
                  std::vector<double> moves =
                      movesOf(layer, inputs, scales, candidates[i]);
                  const double least =
                      bound * bound * dot(row, row, hidden) / values;
                  const Adopted ofRow =
                      takeBest(moves, hidden, least, observed.data(), row);
                  count += ofRow.candidates;
                  taken += ofRow.taken;
                }
              });
  adopted.candidates = count;
  adopted.taken = taken;
  return adopted;
}

} // namespace moec::reference
