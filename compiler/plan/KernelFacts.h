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

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>

namespace moec::compiler {

/// The fact of that name, an integer or a flag, or null.
mlir::Attribute factOf(moe::KernelOp kernel, llvm::StringRef name);

/// A bool, number, string or dictionary as JSON; null for a unit and for all
/// that JSON does not have.
nlohmann::json attributeJson(mlir::Attribute attribute);

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
bool areOlder(moe::KernelOp kernel, WordList fields);

// The second of two persistent matmuls may begin while the first one ends: on
// row tiles that it counts as stored
// (templates/moe/matmul/roles/tile_source.cuh). Both are then live at a time.
// Overlap.cpp decides it.

/// How many column tiles of a row tile the launch right before this one counts
/// before this one may read its rows; 0 where this one waits for all of it.
int64_t awaitedColumnTiles(moe::LaunchOp launch);

/// The same of all launches of a kernel; 0 where they differ.
int64_t awaitedColumnTiles(moe::KernelOp kernel);

/// Returns true if a launch of the kernel is followed by one of a kernel that
/// awaits its column tiles.
bool countsColumnTiles(moe::KernelOp kernel);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_KERNELFACTS_H
