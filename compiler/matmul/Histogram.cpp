//===- Histogram.cpp - distribution of tokens over experts ----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/matmul/Histogram.h"

#include "runtime/support/Files.h"
#include "runtime/support/Json.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

using namespace moec;
using namespace moec::compiler;
using nlohmann::json;
using Kind = RoutingPattern::Kind;

/// Maximum size in bytes of a histogram file, which has one count per expert.
static constexpr size_t kMaxBytes = size_t(1) << 20;

static Result<std::vector<double>> readCounts(const std::string &path) {
  const std::string text = TRY(readFile(path, kMaxBytes));
  const auto expected = [&](std::string_view got) {
    return invalidArgument("histogram '{}': expected {{\"rows\": [...]}}, the "
                           "rows that each expert got, none negative and one "
                           "positive; got {}",
                           path, got);
  };
  const json root =
      TRY(parseJsonObject(text, fmt::format("histogram '{}'", path),
                          ErrorCode::InvalidArgument, {kMaxBytes}));
  const auto rows = root.find("rows");
  if (root.size() != 1 || rows == root.end() || !rows->is_array())
    return expected(shortJson(root));
  std::vector<double> counts;
  double sum = 0;
  for (const json &count : *rows) {
    if (!count.is_number() || !(count.get<double>() >= 0))
      return expected(describeJson(count));
    counts.push_back(count.get<double>());
    sum += counts.back();
  }
  if (!(sum > 0) || !std::isfinite(sum))
    return expected("a sum of " + fmt::format("{}", sum));
  return counts;
}

Result<Histogram> Histogram::parse(std::string_view text) {
  Histogram histogram;
  histogram.said = text;
  if (!RoutingPattern::isPattern(text) && fileExists(histogram.said)) {
    histogram.counts = TRY(readCounts(histogram.said));
    return histogram;
  }
  auto pattern = RoutingPattern::parse(
      text, ", or a JSON file {\"rows\": [...]} that exists");
  if (!pattern)
    return Error(pattern.error().code, "--histogram: {}",
                 pattern.error().message);
  histogram.pattern = *pattern;
  return histogram;
}

std::vector<double> Histogram::oddsOf(int64_t experts) const {
  if (!counts.empty())
    return counts;
  std::vector<double> odds(static_cast<size_t>(experts), 1.0);
  for (size_t place = 0; place < odds.size(); ++place)
    if (pattern.kind == Kind::Zipf)
      odds[place] = std::pow(double(place + 1), -pattern.value);
    else if (pattern.kind == Kind::Used &&
             double(place) >= pattern.usedOf(experts))
      odds[place] = 0;
  return odds;
}

/// Returns the probability of at least one event if the number of events is
/// Poisson-distributed with mean `draws`.
static double chanceOf(double draws) { return -std::expm1(-draws); }

/// Computes the probability that each expert is among `pairs` experts drawn
/// without repetition. Models the draws as Poisson processes: up to a time t,
/// an expert with odds w is drawn at least once with probability 1 - exp(-w t).
/// Finds the t at which these probabilities sum to `pairs`.
static std::vector<double> chancesBy(const std::vector<double> &odds,
                                     double pairs) {
  const auto sumAt = [&](double time) {
    double sum = 0;
    for (double odd : odds)
      sum += chanceOf(odd * time);
    return sum;
  };
  double low = 0, high = 1;
  while (sumAt(high) < pairs && high < 1e12)
    high *= 2;
  for (int step = 0; step < 200; ++step) {
    const double middle = (low + high) / 2;
    (sumAt(middle) < pairs ? low : high) = middle;
  }
  std::vector<double> chances;
  for (double odd : odds)
    chances.push_back(chanceOf(odd * high));
  return chances;
}

/// Scales the counts to probabilities that sum to `pairs`. A probability above
/// one is set to one, and the excess is distributed over the other experts.
static std::vector<double> chancesOfCounts(const std::vector<double> &counts,
                                           double pairs) {
  std::vector<double> chances(counts.size(), 0.0);
  double left = pairs;
  std::vector<bool> full(counts.size());
  for (bool again = true; again;) {
    again = false;
    double sum = 0;
    for (size_t e = 0; e < counts.size(); ++e)
      sum += full[e] ? 0 : counts[e];
    for (size_t e = 0; e < counts.size(); ++e)
      if (!full[e] && sum > 0)
        chances[e] = left * counts[e] / sum;
    for (size_t e = 0; e < counts.size(); ++e)
      if (!full[e] && chances[e] > 1) {
        chances[e] = 1, full[e] = true;
        left -= 1, again = true;
      }
  }
  return chances;
}

Result<std::vector<ExpertGroup>> Histogram::chances(int64_t experts,
                                                    int64_t pairs) const {
  TRY(pattern.check(experts, pairs));
  if (!counts.empty() && counts.size() != size_t(experts))
    return invalidArgument("histogram '{}': expected the rows of the layer's "
                           "{} experts, got {} numbers",
                           said, experts, counts.size());
  if (int64_t used =
          std::ranges::count_if(counts, [](double c) { return c > 0; });
      !counts.empty() && used < pairs)
    return invalidArgument("histogram '{}': a token chooses {} experts, and {} "
                           "got rows",
                           said, pairs, used);
  const double n = double(experts), k = double(pairs);
  if (counts.empty() && pattern.kind == Kind::Uniform)
    return std::vector<ExpertGroup>{{n, std::min(k / n, 1.0)}};
  if (counts.empty() && pattern.kind == Kind::Hot) {
    const double hot = pattern.value;
    return std::vector<ExpertGroup>{
        {hot, std::min(k / hot, 1.0)},
        {n - hot, n > hot ? std::max(k - hot, 0.0) / (n - hot) : 0.0}};
  }
  std::vector<ExpertGroup> groups;
  for (double chance : counts.empty() ? chancesBy(oddsOf(experts), k)
                                      : chancesOfCounts(counts, k))
    if (!groups.empty() && groups.back().chance == chance)
      groups.back().experts += 1;
    else
      groups.push_back({1, chance});
  return groups;
}
