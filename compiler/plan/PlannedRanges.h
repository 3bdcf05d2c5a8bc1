//===- PlannedRanges.h - token ranges of variants ---------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Combines the ranges of token counts that rules propose with those that
// measurements propose. This header does not depend on the IR.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_PLAN_PLANNEDRANGES_H
#define MOEC_COMPILER_PLAN_PLANNEDRANGES_H

#include <cstdint>
#include <span>
#include <vector>

namespace moec::compiler {

/// A range of token counts that becomes one variant.
struct Planned {
  /// Slices: second matmul and combine in one kernel
  /// (compiler/matmul/Slices.h). A range of kind Slices lies within another
  /// range and is listed before it. Ranges of the other kinds do not overlap.
  enum Kind { Few, Slices, Tiles, Tuned } kind;
  int64_t first = 0, last = 0, tileRows = 0, step = 0;
  bool operator==(const Planned &) const = default;
};

/// Splits each range that contains both `border` and `border` + 1 after
/// `border`.
std::vector<Planned> splitAt(int64_t border, std::span<const Planned> ranges);

/// Returns the measured ranges and the parts of the planned ranges that no
/// measured range covers. The result ascends; slices come before the range that
/// contains them. `measured` must ascend.
std::vector<Planned> cutRanges(std::span<const Planned> planned,
                               std::span<const Planned> measured);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_PLANNEDRANGES_H
