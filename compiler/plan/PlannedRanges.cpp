//===- PlannedRanges.cpp - token ranges of variants -----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A measured range may be inside a planned range, which is then split into two.
//
//===----------------------------------------------------------------------===//

#include "compiler/plan/PlannedRanges.h"

#include <algorithm>

using namespace moec;
using namespace moec::compiler;

std::vector<Planned> compiler::splitAt(int64_t border,
                                       std::span<const Planned> ranges) {
  std::vector<Planned> split;
  for (Planned range : ranges) {
    if (range.first <= border && border < range.last) {
      Planned lower = range;
      lower.last = border, range.first = border + 1;
      split.push_back(lower);
    }
    split.push_back(range);
  }
  return split;
}

std::vector<Planned> compiler::cutRanges(std::span<const Planned> planned,
                                         std::span<const Planned> measured) {
  std::vector<Planned> slices, others(measured.begin(), measured.end());
  for (const Planned &range : planned) {
    auto &pieces = range.kind == Planned::Slices ? slices : others;
    Planned piece = range;
    for (const Planned &taken : measured) {
      if (taken.last < piece.first || taken.first > range.last)
        continue;
      piece.last = taken.first - 1;
      if (piece.first <= piece.last)
        pieces.push_back(piece);
      piece.first = taken.last + 1;
    }
    piece.last = range.last;
    if (piece.first <= piece.last)
      pieces.push_back(piece);
  }
  std::ranges::stable_sort(others, {}, &Planned::first);
  std::vector<Planned> all;
  for (const Planned &range : others) {
    for (const Planned &part : slices)
      if (range.first <= part.first && part.last <= range.last)
        all.push_back(part);
    all.push_back(range);
  }
  return all;
}
