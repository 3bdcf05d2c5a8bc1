//===- KernelFacts.h - named facts of a kernel ------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rows of dialect/catalog/Kernels.h refer to facts of a kernel by name:
//   - attributes of the stages, named as in manifests
//   - `columns`: columns of a stage's first operand
//   - `NAME_bytes`: bytes of one row of the operand or result NAME
//   - `NAME_pieces`: the number of pieces in which warps copy such a row
//   - `rank_experts`: the number of experts whose weights this rank has
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

/// Returns the fact with this name, an integer or a flag, or null.
mlir::Attribute factOf(moe::KernelOp kernel, llvm::StringRef name);

/// Converts a bool, number, string or dictionary attribute to JSON. Returns
/// null for a unit attribute and for any attribute that JSON cannot represent.
nlohmann::json attributeJson(mlir::Attribute attribute);

/// Returns the text with each `{fact}` replaced by the value of that fact.
std::string withFacts(moe::KernelOp kernel, llvm::StringRef text);

/// Returns the operand or result with this name of any of the kernel's stages,
/// or null.
mlir::Value valueOf(moe::KernelOp kernel, llvm::StringRef name);

/// rankOperandsOf() returns the names of the per-rank parameters that the stage
/// needs, such as "rank" or "local_begin" (runtime/package/Stages.h).
/// takesOfRank() returns true if any stage of the kernel needs `operand`.
llvm::SmallVector<llvm::StringRef> rankOperandsOf(moe::StageOpInterface stage);
bool takesOfRank(moe::KernelOp kernel, llvm::StringRef operand);

/// Returns the operands that a stage which communicates with other ranks needs
/// besides values of the program. The names are those of
/// runtime/package/Stages.h.
llvm::ArrayRef<llvm::StringRef> exchangeOperandsOf(moe::StageOpInterface stage);

/// Returns true if, for every launch of the kernel, the predecessor launch
/// writes none of `fields` (blank-separated names). The kernel may then read
/// them before that launch ends (templates/moe/core/pdl.cuh).
bool areOlder(moe::KernelOp kernel, WordList fields);

// The second of two persistent matmuls may start while the first one still
// runs. It then reads row tiles that the first one has counted as stored
// (templates/moe/matmul/roles/tile_source.cuh), so the results of both are live
// at the same time. Overlap.cpp decides when this applies.

/// Returns the number of column tiles of a row tile that the preceding launch
/// must have stored before this launch may read the rows of the tile. Returns 0
/// if this launch waits for the whole preceding launch.
int64_t awaitedColumnTiles(moe::LaunchOp launch);

/// Returns awaitedColumnTiles(launch) if it is equal for all of the kernel's
/// launches, else 0.
int64_t awaitedColumnTiles(moe::KernelOp kernel);

/// Returns true if some launch of the kernel is followed by a launch whose
/// kernel waits for its column tiles.
bool countsColumnTiles(moe::KernelOp kernel);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_KERNELFACTS_H
