//===- Trial.cpp - a candidate and its measurement ------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A gain below twice the noise is none.
//
//===----------------------------------------------------------------------===//

#include "compiler/tune/Trial.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>

using namespace moec;
using namespace moec::compiler;

/// "wgmma 64x128x64 stages 8 warps 4+8, group 1".
static std::string wordsOf(const Schedule &s) {
  return fmt::format(
      "{}, group {}{}", compiler::describe(s), s.groupM,
      s.ctasPerSm > 1 ? fmt::format(", {} CTAs a multiprocessor", s.ctasPerSm)
                      : "");
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
