//===- Liveness.h - places workspace by lifetime ----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Values of a variant, each with its size as an expression and the launches
// during which it must keep its content, get offsets so that two overlap in
// bytes only if they do not overlap in time, for every token count.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_PLAN_LIVENESS_H
#define MOEC_COMPILER_PLAN_LIVENESS_H

#include "runtime/package/Expression.h"

#include <string>
#include <vector>

namespace moec::compiler {

/// Every region starts at a multiple of this many bytes.
inline constexpr int64_t kRegionAlignment = 256;

struct LiveValue {
  std::string name;
  Expression bytes;
  int64_t firstLaunch = 0, lastLaunch = 0; ///< inclusive
};

struct WorkspacePlan {
  std::vector<Expression> offsets; ///< parallel to the values
  Expression bytes;                ///< of the whole workspace
};

/// First fit by descending size at `largest` (the symbols at the variant's
/// maximal token count); the order found there then holds for all token
/// counts, each offset being the end of what lies below. Fails only if a size
/// cannot be evaluated.
Result<WorkspacePlan> planWorkspace(const std::vector<LiveValue> &values,
                                    const Symbols &largest);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_LIVENESS_H
