//===- MatmulProblems.h - what schedules of a kernel serve ------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_PLAN_MATMULPROBLEMS_H
#define MOEC_COMPILER_PLAN_MATMULPROBLEMS_H

#include "compiler/engine/Problem.h"
#include "dialect/Moe.h"

#include <utility>

namespace moec::compiler {

/// The token counts for which a kernel is launched.
std::pair<int64_t, int64_t> tokenRange(moe::KernelOp kernel);

/// The matmul of a kernel that takes tiles of rows, all members known. An error
/// at the kernel where no variant launches it, or variants whose tiles differ.
mlir::FailureOr<MatmulProblem> tiledProblem(moe::KernelOp kernel);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_MATMULPROBLEMS_H
