//===- Overlap.h - matmuls that run beside each other -----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The second of two persistent matmuls may begin while the first one ends: on
// row tiles that it counts as stored (templates/moe/skeleton/
// tile_source.cuh). Both are then live at a time.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_PLAN_OVERLAP_H
#define MOEC_COMPILER_PLAN_OVERLAP_H

#include "dialect/Moe.h"

#include <cstdint>

namespace moec::compiler {

/// How many column tiles of a row tile the launch right before this one counts
/// before this one may read its rows; 0 where this one waits for all of it.
int64_t awaitedColumnTiles(moe::LaunchOp launch);

/// The same of all launches of a kernel; 0 where they differ.
int64_t awaitedColumnTiles(moe::KernelOp kernel);

/// Whether a launch of the kernel is followed by one of a kernel that awaits
/// its column tiles.
bool countsColumnTiles(moe::KernelOp kernel);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_OVERLAP_H
