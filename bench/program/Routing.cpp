//===- Routing.cpp - which experts tokens choose --------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bench/program/Routing.h"

#include "test/reference/Element.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

using namespace moec;
using namespace moec::bench;

/// Far beyond what normal logits reach.
static constexpr double kFar = 16;

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
static double shiftOf(const RoutingPattern &pattern, int64_t place,
                      int64_t experts) {
  switch (pattern.kind) {
  case RoutingPattern::Kind::Uniform:
    return 0;
  case RoutingPattern::Kind::Zipf:
    return -pattern.value * std::log(double(place + 1));
  case RoutingPattern::Kind::Hot:
    return double(place) < pattern.value ? kFar : 0;
  case RoutingPattern::Kind::Used:
    return double(place) < pattern.usedOf(experts) ? kFar : 0;
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
  TRY(routing.pattern.check(shape.experts, shape.topK));
  const std::vector<int64_t> order = randomOrder(shape.experts, ~seed);
  std::vector<double> shifts(size_t(shape.experts));
  for (size_t place = 0; place < order.size(); ++place)
    shifts[size_t(order[place])] =
        shiftOf(routing.pattern, int64_t(place), shape.experts);
  // The largest of Gumbel noise plus log(odds) are a draw by these odds.
  std::mt19937_64 random(seed);
  std::extreme_value_distribution<double> gumbel;
  std::normal_distribution<double> normal;
  const bool byOdds = routing.pattern.kind == RoutingPattern::Kind::Zipf;
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
