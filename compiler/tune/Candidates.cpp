//===- Candidates.cpp - schedules that a tuner tries ----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Random schedules come from a counter-based generator, so that a seed yields
// the same schedules on every machine.
//
//===----------------------------------------------------------------------===//

#include "compiler/tune/Candidates.h"

#include "compiler/matmul/CostModel.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <set>

using namespace moec;
using namespace moec::compiler;

namespace {
/// The splitmix64 generator.
class Draw {
public:
  explicit Draw(uint64_t seed) : state(seed) {}
  uint64_t next() {
    state += 0x9e3779b97f4a7c15;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  int64_t of(std::initializer_list<int64_t> choices) {
    return choices.begin()[next() % choices.size()];
  }

private:
  uint64_t state;
};

/// A set of distinct legal schedules. Their `source` is ignored.
class Collection {
public:
  Collection(const MatmulProblem &problem, const Hardware &hardware)
      : problem(problem), hardware(hardware) {}
  bool add(Schedule s) {
    s.source = "tuned";
    if (whyIllegal(problem, s, hardware))
      return false;
    s.ctasPerSm = engineOf(s).ctasPerSm(problem, s, hardware);
    if (std::ranges::find(all, s) != all.end())
      return false;
    all.push_back(std::move(s));
    return true;
  }
  std::vector<Schedule> all;

private:
  const MatmulProblem &problem;
  const Hardware &hardware;
};
} // namespace

/// Returns a random schedule with the problem's tile rows. The schedule may be
/// illegal.
static Schedule drawSchedule(const MatmulProblem &problem,
                             const Schedule &example, Draw &draw) {
  Schedule s = example;
  s.tileM = problem.tileRows;
  s.tileN = draw.of({32, 64, 128, 256});
  s.stages = 2 + int64_t(draw.next() % 10);
  s.groupM = draw.of({1, 2, 4, 8, 16});
  if (s.hasRoles()) {
    s.ctasPerSm = draw.of({1, 1, 2});
    setRoles(s, draw.of({64, 64, 128}), s.roles().swap);
  } else {
    s.tileK = draw.of({32, 64, 128, 256}) /
              std::max<int64_t>(problem.elementBytes / 2, 1);
    s.grid().m = draw.of({1, 2, 4});
    s.grid().n = draw.of({1, 2, 4, 8});
    s.ctasPerSm = 1;
  }
  return s;
}

std::vector<Schedule> compiler::schedulesOf(const MatmulProblem &problem,
                                            const Engines &engines,
                                            const Hardware &hardware,
                                            int64_t tokens, int64_t random,
                                            uint64_t seed) {
  Collection made(problem, hardware);
  std::vector<Schedule> examples;
  for (const Engine *engine : engines) {
    for (const GoodSchedule &good : engine->goodSchedules(problem, hardware))
      if (made.add(good.schedule))
        for (int64_t group : {1, 4, 8}) {
          Schedule beside = good.schedule;
          beside.groupM = group;
          made.add(beside);
        }
    const std::vector<Schedule> enumerated =
        engine->candidates(problem, hardware);
    for (const Schedule &s : enumerated)
      made.add(s);
    if (!enumerated.empty())
      examples.push_back(enumerated.front());
  }
  Draw draw(seed);
  constexpr int64_t kTries = 200;
  int64_t found = 0;
  for (int64_t i = 0; i < random * kTries && found < random; ++i)
    if (!examples.empty())
      found += made.add(drawSchedule(
          problem, examples[size_t(draw.next() % examples.size())], draw));
  std::ranges::stable_sort(made.all, {}, [&](const Schedule &s) {
    return estimate(problem, s, hardware, tokens).seconds;
  });
  return made.all;
}

std::optional<Schedule> compiler::centerOf(const MatmulProblem &problem,
                                           const Engines &engines,
                                           const Hardware &hardware) {
  std::optional<Schedule> center = knownGood(problem, engines, hardware);
  if (!center) {
    const std::vector<Schedule> legal =
        engines.front()->candidates(problem, hardware);
    if (legal.empty())
      return std::nullopt;
    center = best(problem, legal, hardware);
  }
  center->source = "tuned";
  center->ctasPerSm = engineOf(*center).ctasPerSm(problem, *center, hardware);
  return center;
}

SchedulePair compiler::predict(const TunedLayer &layer, const Schedule &first,
                               const Schedule &second, const Hardware &hardware,
                               int64_t tokens) {
  return {first, second,
          estimate(layer.first, first, hardware, tokens).seconds +
              estimate(layer.second, second, hardware, tokens).seconds};
}

std::vector<SchedulePair> compiler::variationsOf(const TunedLayer &layer,
                                                 const SchedulePair &center,
                                                 const Hardware &hardware,
                                                 int64_t tokens, int64_t random,
                                                 uint64_t seed) {
  std::vector<SchedulePair> all;
  for (const Schedule &s :
       schedulesOf(layer.first, layer.engines, hardware, tokens, random, seed))
    all.push_back(predict(layer, s, center.second, hardware, tokens));
  for (const Schedule &s : schedulesOf(layer.second, layer.secondEngines,
                                       hardware, tokens, random, seed + 1))
    all.push_back(predict(layer, center.first, s, hardware, tokens));
  std::erase(all, center);
  std::ranges::stable_sort(all, {}, &SchedulePair::predicted);
  return all;
}

std::vector<int64_t> compiler::tileRowsOf(const Engines &engines,
                                          int64_t elementBytes) {
  std::set<int64_t> rows;
  for (const Engine *engine : engines)
    for (const TileRule &rule : engine->tileRules())
      if (rule.when.elementBytes == 0 || rule.when.elementBytes == elementBytes)
        rows.insert(rule.then.rows);
  return {rows.begin(), rows.end()};
}

nlohmann::ordered_json compiler::problemJson(const MatmulProblem &p) {
  return {{"n", p.n},
          {"k", p.k},
          {"experts", p.localExperts},
          {"of_experts", p.experts},
          {"pairs", p.pairs},
          {"element_type", p.elementType},
          {"element_bytes", p.elementBytes},
          {"result_bytes", p.resultBytes},
          {"scheme", p.scheme},
          {"first", p.first},
          {"gated", p.gated},
          {"gather", p.gather},
          {"group_scales", p.groupScales},
          {"row_scales", p.rowScales},
          {"group_columns", p.groupColumns},
          {"code_bits", p.codeBits},
          {"in_fragments", p.inFragments},
          {"group_k", p.groupK},
          {"adds_fast", p.addsFast},
          {"tile_rows", p.tileRows}};
}

std::vector<TokenRange> compiler::rangesAround(std::vector<int64_t> tokens,
                                               int64_t maxTokens,
                                               int64_t border) {
  std::ranges::sort(tokens);
  tokens.erase(std::ranges::unique(tokens).begin(), tokens.end());
  std::vector<TokenRange> ranges;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const double at = double(tokens[i]);
    double first = at / std::sqrt(2.0), last = at * std::sqrt(2.0);
    if (i > 0)
      first = std::max(first, std::sqrt(at * double(tokens[i - 1])));
    if (i + 1 < tokens.size())
      last = std::min(last, std::sqrt(at * double(tokens[i + 1])));
    TokenRange range = {tokens[i], int64_t(std::ceil(first)),
                        int64_t(std::floor(last))};
    // If the geometric mean of two neighbors is an integer, it belongs to the
    // range of the smaller token count.
    if (i > 0 && range.first <= ranges.back().last)
      range.first = ranges.back().last + 1;
    if (range.tokens <= border)
      range.last = std::min(range.last, border);
    else
      range.first = std::max(range.first, border + 1);
    range.last = std::min(range.last, maxTokens);
    range.first = std::min(range.first, range.tokens);
    range.last = std::max(range.last, range.tokens);
    ranges.push_back(range);
  }
  return ranges;
}
