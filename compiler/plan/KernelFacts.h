//===- KernelFacts.h - numbers of a kernel by name --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rows of dialect/catalog/Kernels.h name facts: attributes of the stages as
// manifests call them, `columns` of the first operand, `NAME_bytes` of a row of
// an operand and `NAME_pieces` that warps copy it in, `rank_experts` whose
// weights this rank has, `threads` and `schedule_tokens` of the schedule,
// `early` and `column_blocks` of the plan.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_PLAN_KERNELFACTS_H
#define MOEC_COMPILER_PLAN_KERNELFACTS_H

#include "dialect/Moe.h"

#include <string>

namespace moec::compiler {

/// The fact of that name, an integer or a flag, or null.
mlir::Attribute factOf(moe::KernelOp kernel, llvm::StringRef name);

/// The text with numbers in place of `{fact}`.
std::string withFacts(moe::KernelOp kernel, llvm::StringRef text);

/// The operand or result of a stage that has the name, or null.
mlir::Value valueOf(moe::KernelOp kernel, llvm::StringRef name);

/// Numbers of the rank that runs which the stage takes, by the names of
/// runtime/package/Stages.h; and whether a stage of the kernel takes one.
llvm::SmallVector<llvm::StringRef> rankOperandsOf(moe::StageOpInterface stage);
bool takesOfRank(moe::KernelOp kernel, llvm::StringRef operand);

/// A stage that reaches other ranks takes these besides values of the program;
/// the names are those of runtime/package/Stages.h.
llvm::ArrayRef<llvm::StringRef> exchangeOperandsOf(moe::StageOpInterface stage);

/// Whether, wherever the kernel is launched, the launch right before it wrote
/// none of these fields, words separated by blanks: then they may be read while
/// that launch still runs (templates/moe/core/pdl.cuh).
bool areOlder(moe::KernelOp kernel, llvm::StringRef fields);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_KERNELFACTS_H
