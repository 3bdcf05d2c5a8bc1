//===- PlannedRanges.h - token counts before variants --------- -*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ranges of token counts that rules and measurements say, and what is left of
// the one beside the other. No IR.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_PLAN_PLANNEDRANGES_H
#define MOEC_COMPILER_PLAN_PLANNEDRANGES_H

#include <cstdint>
#include <span>
#include <vector>

namespace moec::compiler {

/// A variant to be.
struct Planned {
  /// Slices precede a range that holds them; all others are side by side.
  enum Kind { Few, Slices, Tiles, Tuned } kind;
  int64_t first = 0, last = 0, tileRows = 0, step = 0;
  bool operator==(const Planned &) const = default;
};

/// The same ranges, none of which goes on behind `border`.
std::vector<Planned> splitAt(int64_t border, std::span<const Planned> ranges);

/// The measured ranges, which ascend, and what is left of those planned beside
/// them. They ascend, slices before the range that holds them.
std::vector<Planned> cutRanges(std::span<const Planned> planned,
                               std::span<const Planned> measured);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_PLANNEDRANGES_H
