//===- Search.cpp - schedules that are worth a measurement ----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The schedules of both matmuls have the same number of tile rows.
//
//===----------------------------------------------------------------------===//

#include "compiler/tune/Search.h"
#include "runtime/support/Files.h"

#include <algorithm>
#include <fmt/core.h>
#include <limits>
#include <nlohmann/json.hpp>

using namespace moec;
using namespace moec::compiler;

Result<std::vector<Trial>> compiler::centersOf(const TunedInput &input,
                                               const TokenRange &range,
                                               const DefaultChoice &choice) {
  const Hardware &hardware = input.hardware();
  std::vector<Trial> centers;
  const TunedLayer any = TRY(input.problemsFor(range, 16));
  std::vector<int64_t> sizes = tileRowsOf(any.engines, any.first.elementBytes);
  if (choice.schedules &&
      std::ranges::find(sizes, choice.tileRows) == sizes.end())
    sizes.push_back(choice.tileRows);
  for (int64_t size : sizes) {
    Trial trial;
    trial.layer = TRY(input.problemsFor(range, size));
    const auto first =
        centerOf(trial.layer.first, trial.layer.engines, hardware);
    const auto second =
        centerOf(trial.layer.second, trial.layer.secondEngines, hardware);
    if (!first || !second)
      continue;
    trial.candidate =
        predict(trial.layer, *first, *second, hardware, range.tokens);
    // The compiler's choice may come from a built-in row. It may be illegal for
    // this range, because the range determines if the variant's kernels
    // quantize.
    if (choice.schedules && size == choice.tileRows &&
        !whyIllegal(trial.layer.first, choice.schedules->first, hardware) &&
        !whyIllegal(trial.layer.second, choice.schedules->second, hardware))
      trial.candidate =
          predict(trial.layer, choice.schedules->first,
                  choice.schedules->second, hardware, range.tokens);
    centers.push_back(std::move(trial));
  }
  std::ranges::stable_sort(centers, {}, [](const Trial &trial) {
    return trial.candidate.predicted;
  });
  return centers;
}

std::vector<Trial> compiler::besideOf(std::vector<Trial> centers,
                                      const TuneOptions &options,
                                      const Hardware &hardware,
                                      int64_t tokens) {
  std::ranges::stable_sort(centers, {}, [](const Trial &trial) {
    return trial.ratio > 0 ? trial.ratio
                           : std::numeric_limits<double>::infinity();
  });
  constexpr size_t kSizes = 2;
  const size_t used =
      options.exhaustive ? centers.size() : std::min(kSizes, centers.size());
  std::vector<Trial> beside;
  for (size_t i = 0; i < used; ++i)
    for (const SchedulePair &candidate :
         variationsOf(centers[i].layer, centers[i].candidate, hardware, tokens,
                      options.random, options.seed + uint64_t(tokens)))
      beside.push_back({centers[i].layer, candidate});
  std::ranges::stable_sort(
      beside, {}, [](const Trial &trial) { return trial.candidate.predicted; });
  return beside;
}

/// Returns the fastest trial for each schedule of one matmul, up to a few
/// schedules.
static std::vector<const Trial *>
fastestOfEach(const std::vector<Trial> &all, int64_t tileRows,
              const Schedule SchedulePair::*member) {
  std::vector<const Trial *> trials, kept;
  for (const Trial &trial : all)
    if (trial.ratio > 0 && trial.layer.first.tileRows == tileRows)
      trials.push_back(&trial);
  std::ranges::stable_sort(trials, {},
                           [](const Trial *trial) { return trial->ratio; });
  constexpr size_t kEach = 3;
  for (const Trial *trial : trials)
    if (kept.size() < kEach && std::ranges::none_of(kept, [&](auto *other) {
          return other->candidate.*member == trial->candidate.*member;
        }))
      kept.push_back(trial);
  return kept;
}

std::vector<Trial> compiler::togetherOf(const std::vector<Trial> &all,
                                        const Hardware &hardware,
                                        int64_t tokens) {
  std::vector<Trial> together;
  const Trial *best = fastest(all);
  if (!best)
    return together;
  const int64_t tileRows = best->layer.first.tileRows;
  for (const Trial *first : fastestOfEach(all, tileRows, &SchedulePair::first))
    for (const Trial *second :
         fastestOfEach(all, tileRows, &SchedulePair::second)) {
      const SchedulePair pair =
          predict(best->layer, first->candidate.first, second->candidate.second,
                  hardware, tokens);
      const auto known = [&](const Trial &trial) {
        return trial.layer.first.tileRows == tileRows &&
               trial.candidate == pair;
      };
      if (std::ranges::none_of(all, known) &&
          std::ranges::none_of(together, known))
        together.push_back({best->layer, pair});
    }
  return together;
}

/// Returns text such as "wgmma 64x128x64 stages 8 warps 4+8, group 1".
static std::string wordsOf(const Schedule &s) {
  return fmt::format(
      "{}, group {}{}", compiler::describe(s), s.groupM,
      s.ctasPerSm > 1 ? fmt::format(", {} CTAs per SM", s.ctasPerSm) : "");
}

std::string compiler::words(const SchedulePair &candidate) {
  return fmt::format("first {}; second {}", wordsOf(candidate.first),
                     wordsOf(candidate.second));
}

void compiler::takeLine(const nlohmann::ordered_json &line, Trial &trial) {
  trial.microseconds = line.value("us", 0.0);
  trial.noise = line.value("noise", 0.0);
  const double baselineUs = line.value("baseline_us", 0.0);
  trial.ratio = baselineUs > 0 ? trial.microseconds / baselineUs : 0;
}

const Trial *compiler::fastest(const std::vector<Trial> &trials) {
  const Trial *best = nullptr;
  for (const Trial &trial : trials)
    if (trial.ratio > 0 && (!best || trial.ratio < best->ratio))
      best = &trial;
  return best;
}

const Trial *compiler::fastest(const std::vector<Trial> &trials,
                               double minGain) {
  const Trial *best = nullptr;
  for (const Trial &trial : trials)
    if (isFaster(trial, minGain) && (!best || trial.ratio < best->ratio))
      best = &trial;
  return best;
}

bool compiler::isFaster(const Trial &trial, double minGain) {
  return trial.ratio > 0 &&
         trial.ratio < 1 - std::max(minGain / 100, 2 * trial.noise);
}

/// Returns true if a compilation can use the schedule.
static bool mayServe(const Schedule &schedule, const MatmulProblem &problem,
                     const Engines &engines, const Hardware &hardware) {
  return std::ranges::find(engines, &engineOf(schedule)) != engines.end() &&
         !whyIllegal(problem, schedule, hardware);
}

Result<EarlierRows> compiler::earlierRows(const std::string &path,
                                          const TunedInput &input,
                                          const TokenRange &range) {
  EarlierRows earlier;
  if (!fileExists(path))
    return earlier;
  const std::vector<TunedRow> known =
      TRY(parseTuned(TRY(readFile(path)), path));
  const Hardware &hardware = input.hardware();
  constexpr int64_t kAnyTile = 16;
  const TunedLayer any = TRY(input.problemsFor(range, kAnyTile));
  std::vector<const TunedRow *> seen;
  for (const auto &[first, second] :
       tunedPairs(known, any.first, any.engines, any.second, any.secondEngines,
                  hardware)) {
    if (first->first > range.tokens || first->last < range.tokens)
      continue;
    const Result<TunedLayer> layer =
        input.problemsFor(range, first->schedule.tileM);
    if (!layer ||
        !mayServe(first->schedule, layer->first, layer->engines, hardware) ||
        !mayServe(second->schedule, layer->second, layer->secondEngines,
                  hardware))
      continue;
    Trial trial;
    trial.layer = *layer;
    trial.candidate =
        predict(*layer, scheduleOfRow(*first, layer->first, hardware),
                scheduleOfRow(*second, layer->second, hardware), hardware,
                range.tokens);
    earlier.trials.push_back(std::move(trial));
    for (const auto &[row, problem] :
         {std::pair(first, &any.first), std::pair(second, &any.second)}) {
      if (std::ranges::find(seen, row) != seen.end())
        continue;
      seen.push_back(row);
      // A row that names no scheme may also apply to other layers.
      if (row->scheme == problem->scheme)
        earlier.rows.push_back(*row);
      else
        ++earlier.anyScheme;
    }
  }
  return earlier;
}
