//===- EarlierRows.cpp - schedules that a file of rows has ----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rows that a compilation passes over are nobody's.
//
//===----------------------------------------------------------------------===//

#include "compiler/tune/EarlierRows.h"

#include "runtime/support/Files.h"

#include <algorithm>

using namespace moec;
using namespace moec::compiler;

/// Whether a compilation takes the schedule.
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
      // Rows of any scheme may be other layers', too.
      if (row->scheme == problem->scheme)
        earlier.rows.push_back(*row);
      else
        ++earlier.anyScheme;
    }
  }
  return earlier;
}
