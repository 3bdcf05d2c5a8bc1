//===- Check.cpp - when an output is right --------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The rules of comparison. All sums are in double and over the whole row, so
// that the result does not depend on how rows are split over threads.
//
//===----------------------------------------------------------------------===//

#include "test/reference/Check.h"
#include "test/reference/FirstHalf.h"
#include "test/reference/TestData.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <numeric>

namespace moec::reference {

namespace {

/// One row: the operand types of both matmuls decide.
struct BoundRow {
  std::string_view activation, weight;
  double bound, boundWithPartialsRounded;
};
constexpr std::array<BoundRow, 8> kBounds = {{
    {"f32", "f32", 1e-5, 1e-5},
    {"f16", "f16", 4e-4, 4e-4},
    {"bf16", "bf16", 2.5e-3, 3e-3},
    {"f8E4M3FN", "f8E4M3FN", 6e-3, 6e-3},
    {"i8", "i8", 6e-3, 6e-3},
    {"f8E4M3FN", "i4", 6e-3, 6e-3},
    {"f8E4M3FN", "f4E2M1FN", 6e-3, 6e-3},
    {"i8", "i4", 6e-3, 6e-3},
}};

/// Activations that are emulated: the reference quantizes them identically, and
/// what is multiplied then has 16 bits.
constexpr std::pair<std::string_view, double> kEmulatedBounds[] = {
    {"f8E4M3FN", 6e-3}, {"f8E5M2", 6e-3},   {"i8", 6e-3},  {"f6E3M2FN", 6e-3},
    {"f6E2M3FN", 6e-3}, {"f4E2M1FN", 2e-2}, {"f16", 5e-3}, {"bf16", 5e-3}};

/// The bound if tensor cores keep the sums of all of k, with the bits they
/// have.
constexpr double kFastBound = 2.5e-2;

/// The share of one row in the error.
struct RowError {
  double error2 = 0, norm2 = 0; ///< sums of squares
  double worst = 0;             ///< element error over max(|ref|, rms)
  int64_t worstColumn = -1;
  int64_t notFinite = 0;
};

/// The smallest number of `element` that has all its bits.
double smallestNormal(const Element &element) {
  return element.isFloat
             ? std::ldexp(1.0, 2 - (1 << (element.exponentBits - 1)))
             : 0;
}

/// An infinity of `element` is judged so where `expected` has its largest
/// exponent: as the nearest to `expected` of the numbers that are rounded to
/// it.
double judgedAs(const Element &element, double expected, double infinity) {
  const double largest = largestNumber(element);
  if (!(std::copysign(expected, infinity) == expected) ||
      !(std::fabs(expected) > largest / 2))
    return infinity;
  // Half a step above the largest number.
  const double least = std::ldexp(2 - std::ldexp(0.5, -element.mantissaBits),
                                  std::ilogb(largest));
  return std::copysign(std::max(std::fabs(expected), least), infinity);
}

/// `reference(c)` and `value(c)` give column c as doubles, the latter of
/// `element`. Numbers other than zero are judged as normal ones at least.
template <typename Reference, typename Actual>
RowError compareRow(int64_t columns, Reference reference, Actual value,
                    const Element &element) {
  RowError row;
  const double least = smallestNormal(element);
  const auto sizeOf = [&](double expected) {
    return expected == 0 || std::isinf(expected)
               ? 0
               : std::max(std::fabs(expected), least);
  };
  for (int64_t c = 0; c < columns; ++c)
    row.norm2 += sizeOf(reference(c)) * sizeOf(reference(c));
  const double rms = std::sqrt(row.norm2 / double(columns));
  const double infinity = std::numeric_limits<double>::infinity();
  for (int64_t c = 0; c < columns; ++c) {
    const double expected = reference(c);
    double actual = value(c), relative;
    if (std::isinf(actual) && actual == expected)
      continue;
    if (std::isinf(actual) && std::isfinite(expected))
      actual = judgedAs(element, expected, actual);
    double error = std::fabs(actual - expected);
    if (!std::isfinite(actual) || !std::isfinite(expected)) {
      ++row.notFinite;
      error = relative = infinity;
    } else {
      const double size = std::max(sizeOf(expected), rms);
      relative = error == 0 ? 0 : size == 0 ? infinity : error / size;
    }
    row.error2 += error * error;
    if (relative > row.worst) {
      row.worst = relative;
      row.worstColumn = c;
    }
  }
  return row;
}

double ratio(double error2, double norm2) {
  if (error2 == 0)
    return 0;
  return norm2 == 0 ? std::numeric_limits<double>::infinity()
                    : std::sqrt(error2 / norm2);
}

std::string format(const char *pattern, auto... values) {
  char text[320];
  std::snprintf(text, sizeof(text), pattern, values...);
  return text;
}

/// Report::suspects.
template <typename TokenOf>
std::vector<int64_t> suspectsOf(const std::vector<RowError> &rows,
                                TokenOf tokenOf, double bound) {
  std::vector<size_t> order(rows.size());
  std::iota(order.begin(), order.end(), size_t(0));
  auto beyond = [&](const RowError &row) {
    return !(ratio(row.error2, row.norm2) <= kRowFactor * bound) ||
           !(row.worst <= kElementFactor * bound);
  };
  auto split = std::stable_partition(order.begin(), order.end(),
                                     [&](size_t i) { return beyond(rows[i]); });
  std::stable_sort(split, order.end(), [&](size_t a, size_t b) {
    return rows[a].error2 > rows[b].error2;
  });
  std::vector<int64_t> tokens;
  for (size_t i : order)
    tokens.push_back(tokenOf(i));
  return tokens;
}

/// Applies the rules to the rows' errors; tokenOf(i) names row i.
template <typename TokenOf>
Report judge(const std::vector<RowError> &rows, TokenOf tokenOf, double bound,
             double valuesPerRow, int64_t columns) {
  Report report;
  report.bound = bound;
  double error2 = 0, norm2 = 0, norm4 = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const RowError &row = rows[i];
    error2 += row.error2;
    norm2 += row.norm2;
    norm4 += row.norm2 * row.norm2;
    report.notFinite += row.notFinite;
    const double rowError = ratio(row.error2, row.norm2);
    if (rowError > report.worstRow) {
      report.worstRow = rowError;
      report.worstRowToken = tokenOf(i);
    }
    if (row.worst > report.worstElement) {
      report.worstElement = row.worst;
      report.worstElementToken = tokenOf(i);
      report.worstElementColumn = row.worstColumn;
    }
  }
  report.whole = ratio(error2, norm2);
  const double evenRows = norm4 > 0 ? norm2 * norm2 / norm4 : 1;
  const bool few = evenRows * valuesPerRow < kFewValues;
  const double scatter = kScatter / std::sqrt(evenRows * double(columns));
  const double wholeBound = bound * (few ? kRowFactor : 1 + scatter);

  std::string failures;
  // Written so that a NaN fails.
  if (report.notFinite)
    failures +=
        format("; %lld elements are not finite", (long long)report.notFinite);
  if (!(report.whole <= wholeBound))
    failures += format("; whole tensor %.3g > %.3g", report.whole, wholeBound);
  if (!(report.worstRow <= kRowFactor * bound))
    failures += format("; row of token %lld %.3g > %.3g",
                       (long long)report.worstRowToken, report.worstRow,
                       kRowFactor * bound);
  if (!(report.worstElement <= kElementFactor * bound))
    failures += format("; token %lld column %lld %.3g > %.3g",
                       (long long)report.worstElementToken,
                       (long long)report.worstElementColumn,
                       report.worstElement, kElementFactor * bound);
  report.passed = failures.empty();
  if (!report.passed)
    report.suspects = suspectsOf(rows, tokenOf, bound);
  report.text =
      format("whole %.3g, worst row %.3g (token %lld), worst element %.3g "
             "(token %lld, column %lld), bound %.3g",
             report.whole, report.worstRow, (long long)report.worstRowToken,
             report.worstElement, (long long)report.worstElementToken,
             (long long)report.worstElementColumn, bound);
  report.text = report.passed ? "passed: " + report.text
                              : "FAILED: " + failures.substr(2) + " [" +
                                    report.text + "]";
  return report;
}

} // namespace

Result<double> boundFor(const Layer &layer, bool partialsRounded) {
  auto of = [&](const BoundRow &row) {
    return partialsRounded ? row.boundWithPartialsRounded : row.bound;
  };
  // An output of fewer bits than the operands is rounded to no better than
  // what a layer of that type reaches.
  double ofOutput = 0;
  const Element *output =
      layer.part == "gate_up" ? layer.inputType : layer.outputType;
  for (const BoundRow &row : kBounds)
    if (output && output->name == row.activation)
      ofOutput = of(row);
  // Numbers that are given are summed.
  if (layer.part == "finalize")
    return ofOutput;
  if (layer.computeType) {
    double bound = ofOutput;
    for (const auto &[activation, ofActivation] : kEmulatedBounds)
      if (layer.a1->name == activation || layer.a2->name == activation)
        bound = std::max(bound, ofActivation);
    return bound;
  }
  std::string known;
  for (const BoundRow &row : kBounds) {
    if (layer.a1->name == row.activation && layer.a2->name == row.activation &&
        (layer.weightType->name == row.weight || layer.quantizesWeightsAlone()))
      return std::max(ofOutput, layer.accumulatesFast ? kFastBound : of(row));
    if (row.activation == row.weight)
      known += (known.empty() ? "" : ", ") + std::string(row.activation);
  }
  return Error{ErrorCode::InvalidArgument,
               "no bound for activations of " + std::string(layer.a1->name) +
                   " with weights of " + std::string(layer.weightType->name) +
                   "; known are equal types of " + known +
                   " and of i4 with f8E4M3FN or i8, f4E2M1FN with f8E4M3FN"};
}

Report compareRows(const std::vector<double> &reference,
                   const std::vector<int64_t> &list, int64_t columns,
                   const void *out, const Element &element, int64_t rowStride,
                   double bound, double valuesPerRow) {
  std::vector<RowError> rows(list.size());
  parallelFor(
      int64_t(list.size()), 16 * columns, 0, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i)
          rows[i] = compareRow(
              columns, [&](int64_t c) { return reference[i * columns + c]; },
              [&](int64_t c) {
                return load(element, out, list[i] * rowStride + c);
              },
              element);
      });
  return judge(
      rows, [&](size_t i) { return list[i]; }, bound, valuesPerRow, columns);
}

Report compareDevices(const void *trusted, const void *out,
                      const Element &element, int64_t tokens, int64_t columns,
                      double bound, double valuesPerRow) {
  std::vector<RowError> rows(tokens);
  parallelFor(tokens, 16 * columns, 0, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i)
      rows[i] = compareRow(
          columns,
          [&](int64_t c) { return load(element, trusted, i * columns + c); },
          [&](int64_t c) { return load(element, out, i * columns + c); },
          element);
  });
  return judge(
      rows, [](size_t i) { return int64_t(i); }, bound, valuesPerRow, columns);
}

std::string compareRouting(const Routing &routing, const int32_t *ids,
                           const float *weights, const int32_t *counts,
                           const int32_t *places) {
  if (routing.mistakes)
    return format("%lld tokens are routed wrongly; ",
                  (long long)routing.mistakes) +
           routing.firstMistake;
  for (int64_t token = 0; token < routing.tokens; ++token)
    for (int64_t k = 0; k < routing.pairs; ++k) {
      const int64_t pair = token * routing.pairs + k;
      const int32_t id = routing.ids[pair];
      if (ids && ids[pair] != id)
        return format("ids[%lld, %lld] is %d, expected %d", (long long)token,
                      (long long)k, ids[pair], id);
      if (places && places[pair] != routing.places[pair])
        return format("places[%lld, %lld] is %d, expected %d", (long long)token,
                      (long long)k, places[pair], routing.places[pair]);
      if (!weights || id < 0)
        continue;
      const double expected = routing.weights[pair], actual = weights[pair];
      // Below 1e-30 an f32 kernel may flush.
      if (!(std::fabs(actual - expected) <=
            kWeightTolerance * std::fabs(expected) + 1e-30))
        return format("weights[%lld, %lld] is %.9g, expected %.9g",
                      (long long)token, (long long)k, actual, expected);
    }
  if (counts)
    for (size_t e = 0; e < routing.counts.size(); ++e)
      if (counts[e] != routing.counts[e])
        return format("counts[%lld] is %d, expected %lld", (long long)e,
                      counts[e], (long long)routing.counts[e]);
  return "";
}

void poison(void *data, int64_t bytes) { std::memset(data, 0xFF, bytes); }

static unsigned char canaryByte(uint64_t seed, int64_t position) {
  return (unsigned char)(randomBits(seed, Stream::Other, position / 8) >>
                         (position % 8 * 8));
}

void writeCanary(void *data, int64_t bytes, uint64_t seed) {
  for (int64_t i = 0; i < bytes; ++i)
    static_cast<unsigned char *>(data)[i] = canaryByte(seed, i);
}

int64_t findDamage(const void *data, int64_t bytes, uint64_t seed) {
  for (int64_t i = 0; i < bytes; ++i)
    if (static_cast<const unsigned char *>(data)[i] != canaryByte(seed, i))
      return i;
  return -1;
}

GuardedBuffer::GuardedBuffer(int64_t bytes, uint64_t seed)
    : storage(bytes + 2 * kCanaryBytes + 256), size(bytes), seed(seed) {
  const auto address = reinterpret_cast<uintptr_t>(storage.data());
  begin = int64_t((address + kCanaryBytes + 255) / 256 * 256 - address);
  poison(data(), bytes);
  writeCanary(storage.data() + begin - kCanaryBytes, kCanaryBytes, seed);
  writeCanary(storage.data() + begin + bytes, kCanaryBytes, seed + 1);
}

std::string GuardedBuffer::damage() const {
  int64_t at =
      findDamage(storage.data() + begin - kCanaryBytes, kCanaryBytes, seed);
  if (at >= 0)
    return format("byte %lld before the buffer was overwritten",
                  (long long)(kCanaryBytes - at));
  at = findDamage(storage.data() + begin + size, kCanaryBytes, seed + 1);
  if (at >= 0)
    return format("byte %lld behind the buffer's %lld was overwritten",
                  (long long)at, (long long)size);
  return "";
}

} // namespace moec::reference
