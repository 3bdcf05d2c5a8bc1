//===- KernelFacts.h - named facts of a kernel ------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rows of dialect/catalog/Kernels.h refer to integers and flags of a kernel by
// name. These facts are:
//   - the stage attributes, named as in manifests
//   - `columns`: columns of a stage's first operand
//   - `NAME_bytes`: bytes per row of the operand or result NAME
//   - `NAME_pieces`: number of 2048-byte chunks in which warps copy such a row
//   - `rank_experts`: number of experts whose weights this rank has
//   - `threads`, `schedule_tokens`: members of the schedule
//   - `early`, `column_blocks`: members of the plan
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_PLAN_KERNELFACTS_H
#define MOEC_COMPILER_PLAN_KERNELFACTS_H

#include "dialect/Moe.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>

namespace moec::compiler {

/// Returns the fact with this name as an integer or bool attribute, or null.
mlir::Attribute factOf(moe::KernelOp kernel, llvm::StringRef name);

/// Converts a bool, number, string or dictionary attribute to JSON. Returns
/// null for other attributes.
nlohmann::json attributeJson(mlir::Attribute attribute);

/// Returns `text` with each `{fact}` replaced by the fact's value.
std::string withFacts(moe::KernelOp kernel, llvm::StringRef text);

/// Returns the operand or result named `name` of the kernel's first stage that
/// has such a value, or null.
mlir::Value valueOf(moe::KernelOp kernel, llvm::StringRef name);

/// rankOperandsOf() returns the names of the per-rank parameters that the stage
/// needs, such as "rank" or "local_begin" (runtime/package/Stages.h).
/// takesOfRank() returns true if any of the kernel's stages needs the parameter
/// `operand`.
llvm::SmallVector<llvm::StringRef> rankOperandsOf(moe::StageOpInterface stage);
bool takesOfRank(moe::KernelOp kernel, llvm::StringRef operand);

/// Returns the operands that a stage needs for communication with other ranks,
/// in addition to program values. runtime/package/Stages.h lists the names.
llvm::ArrayRef<llvm::StringRef> exchangeOperandsOf(moe::StageOpInterface stage);

/// Returns true if the predecessor launch of each of the kernel's launches
/// writes none of `fields` (blank-separated names). The kernel may then read
/// these fields before the predecessor launch ends
/// (templates/moe/core/pdl.cuh).
bool areOlder(moe::KernelOp kernel, WordList fields);

// If both matmuls of a layer are persistent, the second matmul may start while
// the first matmul still runs. It then waits for single row tiles, whose stored
// column tiles the first matmul counts
// (templates/moe/matmul/roles/tile_source.cuh). The results of the two
// matmuls are then live at the same time. Overlap.cpp decides when this
// applies.

/// Returns how many column tiles of a row tile the preceding launch must have
/// stored before this launch may read the rows of that tile. Returns 0 if this
/// launch waits for the end of the preceding launch.
int64_t awaitedColumnTiles(moe::LaunchOp launch);

/// Returns awaitedColumnTiles(launch) if all of the kernel's launches have the
/// same value, otherwise 0.
int64_t awaitedColumnTiles(moe::KernelOp kernel);

/// Returns true if any of the kernel's launches precedes a launch that waits
/// for its column tiles.
bool countsColumnTiles(moe::KernelOp kernel);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_KERNELFACTS_H
