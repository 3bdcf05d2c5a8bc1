//===- MatmulProblems.h - matmul problems of a program ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Computes the problem (MatmulProblem) of a kernel's matmul and the engines
// that may serve it. Schedule selection, the choice of variants and the tuner
// all use these functions, so they agree.
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
/// that provides its schedule, and the measured rows of the same matmul that do
/// not apply.
inline constexpr llvm::StringLiteral kMeasuredBy = "moe.measured_by";
inline constexpr llvm::StringLiteral kMeasuredBeside = "moe.measured_beside";
/// Attribute of a kernel that several variants share and whose schedules come
/// from different sources. It is a dictionary from variant to `source` and the
/// two attributes above.
inline constexpr llvm::StringLiteral kSources = "moe.sources";

/// Returns the range of token counts for which the kernel is launched.
std::pair<int64_t, int64_t> tokenRange(moe::KernelOp kernel);

/// Returns the engines that may serve a matmul of the program, the chosen one
/// first. The program's backend must admit an engine, the report must not
/// refuse it, and it must read the packed order of the weights. If the user
/// forces an engine, it is the only one, because the report refuses all others.
Engines servingEngines(moe::ReportAttr report, moe::GroupedMatmulOp matmul);

/// Returns the complete problem of a kernel's tiled matmul. Emits an error at
/// the kernel if no variant launches it, or if the variants that launch it have
/// different tile sizes.
mlir::FailureOr<MatmulProblem> tiledProblem(moe::KernelOp kernel);

/// Returns the problem of a matmul in a variant whose kernels are not formed
/// yet. Token counts, tile sizes and the quantization of the result are not
/// set.
MatmulProblem problemOfStages(moe::GroupedMatmulOp matmul);

/// Returns the problem of the few-token kernel that also routes, for at most
/// `tokens` tokens.
MatmulProblem gemvProblem(moe::GroupedMatmulOp matmul, int64_t tokens);

/// Maximum token count for which one CTA can route, count and permute. No
/// variant's range crosses it, so form-kernels can fuse the three stages in all
/// of a variant or in none of it.
inline constexpr int64_t kFusedRouting = 128;

/// A range of token counts with one tile size. `step` is TileChoice::step.
struct GivenRange {
  int64_t first = 0, last = 0, tileRows = 0, step = 0;
};
/// Returns the range of a variant that the tuner compiled.
GivenRange givenRangeOf(moe::VariantOp variant);
/// printGivenRange() returns text such as "23-45-64-0" (first, last, tileRows,
/// step). parseGivenRange() is its inverse and returns nullopt for any other
/// text.
std::string printGivenRange(const GivenRange &range);
std::optional<GivenRange> parseGivenRange(llvm::StringRef text);
/// Text that denotes an empty list of ranges.
inline constexpr llvm::StringLiteral kNoGivenRanges = "none";

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_MATMULPROBLEMS_H
