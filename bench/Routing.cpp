//===- Routing.cpp - which experts tokens choose --------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bench/Routing.h"

#include "test/reference/Element.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <random>

using namespace moec;
using namespace moec::bench;

namespace {

/// Far beyond what normal logits reach.
constexpr double kFar = 16;

struct Row {
  std::string_view name;
  Routing::Pattern pattern;
  double least, most; ///< of the value
  bool whole;         ///< the value is an integer
  std::string_view expected;
};

constexpr Row kRows[] = {
    {"zipf", Routing::Pattern::Zipf, 0, 10, false, "an exponent from 0 to 10"},
    {"hot", Routing::Pattern::Hot, 1, 1 << 20, true, "a number of experts"},
    {"used", Routing::Pattern::Used, 0, 1, false, "a fraction up to 1"},
};

} // namespace

Result<Routing> moec::bench::parseRouting(std::string_view text) {
  if (text == "uniform")
    return Routing();
  const size_t colon = text.find(':');
  for (const Row &row : kRows) {
    if (text.substr(0, colon) != row.name || colon == text.npos)
      continue;
    const std::string_view number = text.substr(colon + 1);
    double value = 0;
    auto [end, error] =
        std::from_chars(number.data(), number.data() + number.size(), value);
    if (error != std::errc() || end != number.data() + number.size() ||
        !(value >= row.least && value <= row.most) ||
        (row.whole && value != std::floor(value)))
      return Error{ErrorCode::InvalidArgument,
                   fmt::format("expected {} behind '{}:', got '{}'",
                               row.expected, row.name, number)};
    return Routing{row.pattern, value, false};
  }
  return Error{ErrorCode::InvalidArgument,
               fmt::format("expected a routing of uniform, zipf:EXPONENT, "
                           "hot:EXPERTS or used:FRACTION, got '{}'",
                           text)};
}

/// The experts in a random order: hot ones, used ones and the first ranks are
/// at its begin.
static std::vector<int64_t> randomOrder(int64_t experts, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int64_t> order(static_cast<size_t>(experts));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  return order;
}

/// The shift of random logits of the expert at this place of the order.
static double shiftOf(const Routing &routing, int64_t place, int64_t experts) {
  switch (routing.pattern) {
  case Routing::Pattern::Uniform:
    return 0;
  case Routing::Pattern::Zipf:
    return -routing.value * std::log(double(place + 1));
  case Routing::Pattern::Hot:
    return double(place) < routing.value ? kFar : 0;
  case Routing::Pattern::Used:
    return double(place) < std::round(routing.value * double(experts)) ? kFar
                                                                       : 0;
  }
  return 0;
}

/// Logits that deal the pairs out over the experts that are among the topK
/// largest of a row of `logits`.
static void deal(std::vector<double> &logits, const LogitsShape &shape) {
  std::vector<char> isChosen(size_t(shape.experts));
  std::vector<int64_t> order(static_cast<size_t>(shape.experts));
  for (int64_t t = 0; t < shape.tokens; ++t) {
    const double *row = logits.data() + t * shape.experts;
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + shape.topK, order.end(),
                      [&](int64_t a, int64_t b) {
                        return row[a] != row[b] ? row[a] > row[b] : a < b;
                      });
    for (int64_t j = 0; j < shape.topK; ++j)
      isChosen[size_t(order[size_t(j)])] = 1;
  }
  std::vector<int64_t> chosen;
  for (int64_t e = 0; e < shape.experts; ++e)
    if (isChosen[size_t(e)])
      chosen.push_back(e);
  size_t next = 0;
  for (int64_t t = 0; t < shape.tokens; ++t)
    for (int64_t j = 0; j < shape.topK; ++j, ++next)
      logits[size_t(t * shape.experts + chosen[next % chosen.size()])] +=
          4 * kFar;
}

Result<std::vector<char>> moec::bench::routingLogits(const Routing &routing,
                                                     const std::string &type,
                                                     const LogitsShape &shape,
                                                     uint64_t seed) {
  const int64_t count = shape.tokens * shape.experts;
  const reference::Element *element = reference::findElement(type);
  if (!element || !element->isFloat)
    return Error{ErrorCode::InvalidArgument,
                 "expected logits of a float type, got '" + type + "'"};
  if (routing.pattern == Routing::Pattern::Hot &&
      routing.value > double(shape.experts))
    return Error{ErrorCode::InvalidArgument,
                 fmt::format("expected at most {} hot experts, got {}",
                             shape.experts, routing.value)};
  if (routing.pattern == Routing::Pattern::Used &&
      std::round(routing.value * double(shape.experts)) < double(shape.topK))
    return Error{ErrorCode::InvalidArgument,
                 fmt::format("a token chooses {} experts, and the fraction {} "
                             "of {} is fewer",
                             shape.topK, routing.value, shape.experts)};
  const std::vector<int64_t> order = randomOrder(shape.experts, ~seed);
  std::vector<double> shifts(size_t(shape.experts));
  for (size_t place = 0; place < order.size(); ++place)
    shifts[size_t(order[place])] =
        shiftOf(routing, int64_t(place), shape.experts);
  // The largest of Gumbel noise plus log(odds) are a draw by these odds.
  std::mt19937_64 random(seed);
  std::extreme_value_distribution<double> gumbel;
  std::normal_distribution<double> normal;
  const bool byOdds = routing.pattern == Routing::Pattern::Zipf;
  std::vector<double> logits(static_cast<size_t>(count));
  for (size_t i = 0; i < logits.size(); ++i)
    logits[i] = (byOdds ? gumbel(random) : normal(random)) +
                shifts[i % size_t(shape.experts)];
  std::vector<char> data(size_t(count * element->bytes));
  auto store = [&] {
    for (int64_t i = 0; i < count; ++i)
      reference::store(*element, data.data(), i, logits[size_t(i)]);
  };
  store();
  if (routing.dealt) {
    // Rounded logits choose the experts.
    for (int64_t i = 0; i < count; ++i)
      logits[size_t(i)] = reference::load(*element, data.data(), i);
    deal(logits, shape);
    store();
  }
  return data;
}
