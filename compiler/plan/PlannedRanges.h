//===- PlannedRanges.h - token ranges of variants ---------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Combines the token ranges that rules propose with the token ranges that
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
  /// Few: the few-token kernels. Slices: one kernel for the second matmul and
  /// the combine (compiler/matmul/Slices.h). Tiles: tiles chosen by rules.
  /// Tuned: tiles chosen by measurements. A range of kind Slices is inside
  /// another range and is listed before that range. Ranges of the other kinds
  /// do not overlap.
  enum Kind { Few, Slices, Tiles, Tuned } kind;
  int64_t first = 0, last = 0, tileRows = 0, step = 0;
  bool operator==(const Planned &) const = default;
};

/// Splits each range that contains `border` and `border` + 1 into a range up to
/// `border` and a range from `border` + 1.
std::vector<Planned> splitAt(int64_t border, std::span<const Planned> ranges);

/// Returns the measured ranges, and the parts of the planned ranges that no
/// measured range covers. The result ascends, except that ranges of kind Slices
/// precede the range that contains them. `measured` must ascend.
std::vector<Planned> cutRanges(std::span<const Planned> planned,
                               std::span<const Planned> measured);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_PLANNEDRANGES_H
