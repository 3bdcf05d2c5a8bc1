//===- RoutingPattern.cpp - distribution of tokens over experts -----------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/support/RoutingPattern.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>

using namespace moec;

namespace {

struct Row {
  std::string_view name;
  RoutingPattern::Kind kind;
  double least, most; ///< range of the value
  bool whole;         ///< `value` must be an integer
  std::string_view expected;
};

constexpr Row kRows[] = {
    {"zipf", RoutingPattern::Kind::Zipf, 0, 10, false,
     "an exponent from 0 to 10"},
    {"hot", RoutingPattern::Kind::Hot, 1, 1 << 20, true,
     "a whole number of experts from 1"},
    {"used", RoutingPattern::Kind::Used, 0, 1, false, "a fraction from 0 to 1"},
};

} // namespace

bool RoutingPattern::isPattern(std::string_view text) {
  const std::string_view word = text.substr(0, text.find(':'));
  return text == "uniform" ||
         std::any_of(std::begin(kRows), std::end(kRows),
                     [&](const Row &row) { return row.name == word; });
}

Result<RoutingPattern> RoutingPattern::parse(std::string_view text,
                                             std::string_view others) {
  if (text == "uniform")
    return RoutingPattern();
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
      return invalidArgument("expected {} after '{}:', got '{}'", row.expected,
                             row.name, number);
    return RoutingPattern{row.kind, value};
  }
  return invalidArgument("expected a routing of uniform, zipf:EXPONENT, "
                         "hot:EXPERTS or used:FRACTION{}, got '{}'",
                         others, text);
}

double RoutingPattern::usedOf(int64_t experts) const {
  return std::round(value * double(experts));
}

Result<void> RoutingPattern::check(int64_t experts, int64_t topK) const {
  if (kind == Kind::Hot && value > double(experts))
    return invalidArgument("expected at most {} hot experts, got {}", experts,
                           value);
  if (kind == Kind::Used && usedOf(experts) < double(topK))
    return invalidArgument("a token chooses {} experts, and the fraction {} "
                           "of {} is fewer",
                           topK, value, experts);
  return {};
}
