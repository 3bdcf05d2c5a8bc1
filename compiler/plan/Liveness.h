//===- Liveness.h - workspace offsets by lifetime ---------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Assigns workspace offsets to the values of a variant. Each value has a size,
// given as an expression, and a range of launches in which it is live. Two
// values share bytes only if their live ranges do not overlap, for every token
// count.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_PLAN_LIVENESS_H
#define MOEC_COMPILER_PLAN_LIVENESS_H

#include "runtime/package/Expression.h"

#include <string>
#include <vector>

namespace moec::compiler {

/// Alignment in bytes of the start of each region.
inline constexpr int64_t kRegionAlignment = 256;

struct LiveValue {
  std::string name;
  Expression bytes;
  /// First and last launch that accesses the value, inclusive.
  int64_t firstLaunch = 0, lastLaunch = 0;
};

struct WorkspacePlan {
  std::vector<Expression> offsets; ///< one offset per value, in the same order
  Expression bytes;                ///< size of the whole workspace
};

/// Places values first-fit by descending size. Sizes are evaluated at
/// `largest`, the symbols at the variant's maximum token count. Each offset is
/// then expressed as the end of the values below it, so that the same order is
/// valid for every token count. Fails only if a size cannot be evaluated.
Result<WorkspacePlan> planWorkspace(const std::vector<LiveValue> &values,
                                    const Symbols &largest);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_LIVENESS_H
