//===- MatmulProblems.h - a program's matmuls for engines -------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The problem that a kernel's matmul poses, and the engines that may serve it.
// Schedules are selected, ranges are made and candidates are tuned by the same
// answers.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_PLAN_MATMULPROBLEMS_H
#define MOEC_COMPILER_PLAN_MATMULPROBLEMS_H

#include "compiler/matmul/Problem.h"
#include "dialect/Moe.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace moec::compiler {

/// Attributes of a kernel with a grouped matmul: the file of the measured row
/// that serves it, and rows of the same matmul that do not.
inline constexpr llvm::StringLiteral kMeasuredBy = "moe.measured_by";
inline constexpr llvm::StringLiteral kMeasuredBeside = "moe.measured_beside";
/// An attribute of a kernel that variants share whose schedules are from
/// several sources: a dictionary of variants, with `source` and both of the
/// above for each.
inline constexpr llvm::StringLiteral kSources = "moe.sources";

/// The token counts for which a kernel is launched.
std::pair<int64_t, int64_t> tokenRange(moe::KernelOp kernel);

/// Engines that may serve a matmul of the program, the chosen one first: its
/// backend admits them, the report refuses none, and they read the weights as
/// they are packed. A forced engine is alone, since all others are refused
/// then.
Engines servingEngines(moe::ReportAttr report, moe::GroupedMatmulOp matmul);

/// The matmul of a kernel that takes tiles of rows, all members known. An error
/// at the kernel where no variant launches it, or variants whose tiles differ.
mlir::FailureOr<MatmulProblem> tiledProblem(moe::KernelOp kernel);

/// A matmul of a variant without kernels: all members but token counts, tiles
/// and what its kernel quantizes.
MatmulProblem problemOfStages(moe::GroupedMatmulOp matmul);

/// The problem of a kernel that routes by itself, for at most so many tokens.
MatmulProblem gemvProblem(moe::GroupedMatmulOp matmul, int64_t tokens);

/// Up to here one CTA can route, count and permute; a range never crosses it,
/// so that form-kernels may fuse the three in all of a variant or in none.
inline constexpr int64_t kFusedRouting = 128;

/// Token counts with tiles of one size. `step`: TileRule::step.
struct GivenRange {
  int64_t first = 0, last = 0, tileRows = 0, step = 0;
};
/// The range of a tuned variant.
GivenRange givenRangeOf(moe::VariantOp variant);
/// "23-45-64-0", and back; what is no such text has no range.
std::string printGivenRange(const GivenRange &range);
std::optional<GivenRange> parseGivenRange(llvm::StringRef text);
/// Stands for no range at all.
inline constexpr llvm::StringLiteral kNoGivenRanges = "none";

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_MATMULPROBLEMS_H
