//===- ExpertRows.cpp - distribution of rows over experts -----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/matmul/ExpertRows.h"

#include <algorithm>
#include <cmath>

using namespace moec::compiler;

/// Calls `use(rows, probability)` for each possible number of rows per expert
/// that has a significant probability.
template <typename Use>
static void forEachCount(int64_t tokens, double chance, Use use) {
  if (chance <= 0 || tokens <= 0)
    return use(int64_t(0), 1.0);
  if (chance >= 1)
    return use(tokens, 1.0);
  const double n = double(tokens), mean = n * chance;
  const double deviation = std::sqrt(mean * (1 - chance));
  // Counts that differ from the mean by more than eight standard deviations
  // have probabilities below 1e-14.
  const auto first = int64_t(std::max(0.0, std::floor(mean - 8 * deviation)));
  const auto last =
      std::min(tokens, int64_t(std::ceil(mean + 8 * deviation)) + 8);
  const double at = double(first);
  double probability = std::exp(
      std::lgamma(n + 1) - std::lgamma(at + 1) - std::lgamma(n - at + 1) +
      at * std::log(chance) + (n - at) * std::log1p(-chance));
  for (int64_t rows = first; rows <= last; ++rows) {
    use(rows, probability);
    probability *=
        double(tokens - rows) / double(rows + 1) * chance / (1 - chance);
  }
}

ExpertRows ExpertRows::uniform(int64_t tokens, int64_t experts,
                               int64_t localExperts, int64_t pairs) {
  const double chance =
      experts > 0 ? std::min(double(pairs) / double(experts), 1.0) : 0.0;
  return {tokens, {{double(localExperts), chance}}};
}

double ExpertRows::rows() const {
  double sum = 0;
  for (const ExpertGroup &group : groups)
    sum += group.experts * group.chance * double(numTokens);
  return sum;
}

double ExpertRows::touched() const {
  double sum = 0;
  for (const ExpertGroup &group : groups)
    sum += group.experts * (1 - std::pow(1 - group.chance, double(numTokens)));
  return sum;
}

double ExpertRows::most() const {
  double highest = 0;
  for (const ExpertGroup &group : groups) {
    const double mean = group.chance * double(numTokens);
    // Approximates the expected maximum of independent, normally distributed
    // counts.
    const double deviation = std::sqrt(mean * (1 - group.chance));
    const double above =
        group.experts > 1 ? std::sqrt(2 * std::log(group.experts)) : 0;
    highest = std::max(highest, mean + above * deviation);
  }
  // If the run has rows, some expert has at least one.
  return std::min(std::max(highest, std::min(rows(), 1.0)), double(numTokens));
}

ExpertRows::Tiles ExpertRows::tilesOf(const ExpertGroup &group,
                                      int64_t tileRows, int64_t step,
                                      bool alike) const {
  const auto ceilDiv = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  Tiles sum;
  forEachCount(numTokens, group.chance, [&](int64_t rows, double chance) {
    if (rows == 0)
      return;
    const int64_t tiles = ceilDiv(rows, tileRows);
    const int64_t each =
        alike ? ceilDiv(ceilDiv(rows, tiles), step) * step : tileRows;
    const int64_t last = std::max<int64_t>(rows - (tiles - 1) * each, 0);
    sum.count += group.experts * chance * double(tiles);
    sum.rows += group.experts * chance *
                double((tiles - 1) * each + ceilDiv(last, step) * step);
  });
  return sum;
}

ExpertRows::Tiles ExpertRows::tiles(int64_t tileRows, int64_t step,
                                    bool alike) const {
  Tiles sum;
  for (const ExpertGroup &group : groups) {
    const Tiles of = tilesOf(group, tileRows, step, alike);
    sum.count += of.count;
    sum.rows += of.rows;
  }
  return sum;
}
