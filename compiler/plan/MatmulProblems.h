//===- MatmulProblems.h - matmul problems of a program ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Computes the MatmulProblem of a kernel's matmul, and the engines that support
// it. Schedule selection, variant selection and the tuner all use these
// functions, so they agree.
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

/// Two attributes of a kernel with a grouped matmul. kMeasuredBy: the file and
/// token range of the measurement that determines the kernel's schedule.
/// kMeasuredBeside: the token counts for which this matmul was measured, if no
/// measurement applies.
inline constexpr llvm::StringLiteral kMeasuredBy = "moe.measured_by";
inline constexpr llvm::StringLiteral kMeasuredBeside = "moe.measured_beside";
/// Attribute of a kernel that several variants launch and whose schedules come
/// from different sources. It is a dictionary from the variant's name to
/// `source` and the two attributes above.
inline constexpr llvm::StringLiteral kSources = "moe.sources";

/// Returns the range of token counts for which the kernel is launched.
std::pair<int64_t, int64_t> tokenRange(moe::KernelOp kernel);

/// Returns the engines that support a matmul of the program, the chosen engine
/// first. The program's backend must admit the engine, the report must not
/// reject it, and the engine must read the packed order of the weights. If the
/// user forces an engine, it is the only result, because the report rejects all
/// other engines.
Engines servingEngines(moe::ReportAttr report, moe::GroupedMatmulOp matmul);

/// Returns the complete problem of a kernel's tiled matmul. Emits an error at
/// the kernel if no variant launches the kernel, or if the variants that launch
/// it have different tile sizes.
mlir::FailureOr<MatmulProblem> tiledProblem(moe::KernelOp kernel);

/// Returns the problem of a matmul in a variant before kernels are formed.
/// Token counts, tile sizes and the quantization of the result are not set.
MatmulProblem problemOfStages(moe::GroupedMatmulOp matmul);

/// Returns the problem for the few-token kernel of this matmul, which also
/// routes, for at most `tokens` tokens.
MatmulProblem gemvProblem(moe::GroupedMatmulOp matmul, int64_t tokens);

/// Maximum token count for which one CTA can route, count and permute. No
/// variant contains both this count and the next higher count. form-kernels can
/// therefore fuse these stages for all token counts of a variant, or for none.
inline constexpr int64_t kFusedRouting = 128;

/// A range of token counts with one tile size, given by the tuner. `step` is
/// TileChoice::step.
struct GivenRange {
  int64_t first = 0, last = 0, tileRows = 0, step = 0;
};
/// Returns the range and tile size of a variant that the tuner compiled.
GivenRange givenRangeOf(moe::VariantOp variant);
/// printGivenRange() returns text such as "23-45-64-0" (first, last, tileRows,
/// step). parseGivenRange() is its inverse. It returns nullopt for any other
/// text.
std::string printGivenRange(const GivenRange &range);
std::optional<GivenRange> parseGivenRange(llvm::StringRef text);
/// Text that denotes an empty list of ranges.
inline constexpr llvm::StringLiteral kNoGivenRanges = "none";

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_MATMULPROBLEMS_H
