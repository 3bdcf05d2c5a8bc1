//===- Search.cpp - schedules that are worth a measurement ----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Both matmuls of a pair have tiles of one size.
//
//===----------------------------------------------------------------------===//

#include "compiler/tune/Search.h"

#include <algorithm>
#include <limits>

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
    // The compiler's choice may be a built-in row's. Kernels of its variant may
    // be others: whether they quantize depends on the range.
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

/// The fastest of each schedule of one matmul, up to a few.
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
