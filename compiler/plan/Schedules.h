//===- Schedules.h - schedules of engines as attributes ---------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Engines reckon with numbers, and the IR holds attributes.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_PLAN_SCHEDULES_H
#define MOEC_COMPILER_PLAN_SCHEDULES_H

#include "compiler/engine/Problem.h"
#include "dialect/Moe.h"

namespace moec::compiler {

/// The numbers of a matmul's schedule.
Schedule scheduleOf(moe::ScheduleAttr attribute);

/// The attribute of a grouped matmul's schedule, in the form of its engine. A
/// cluster is that of CTAs that share the k of a tile.
moe::ScheduleAttr attributeOf(mlir::MLIRContext *context,
                              const Schedule &schedule, bool programmatic,
                              bool split);
/// The attribute of a kernel that multiplies and combines in slices.
moe::ScheduleAttr attributeOfSlices(mlir::MLIRContext *context,
                                    const Schedule &schedule,
                                    bool programmatic);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_SCHEDULES_H
