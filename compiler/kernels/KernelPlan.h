//===- KernelPlan.h - the schedule and the plan of a kernel -----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_KERNELS_KERNELPLAN_H
#define MOEC_COMPILER_KERNELS_KERNELPLAN_H

#include "dialect/Moe.h"

namespace moec::compiler {

class MeasuredSchedules;

/// The schedule that the kind's rules make, or an error at the kernel.
llvm::FailureOr<moe::ScheduleAttr> makeSchedule(moe::KernelOp kernel,
                                                MeasuredSchedules &measured);

/// Fails, with an error at the kernel, unless its kind may have the schedule
/// that stands.
mlir::LogicalResult verifySchedule(moe::KernelOp kernel,
                                   MeasuredSchedules &measured);

/// The plan of a kernel that has a schedule.
llvm::FailureOr<moe::PlanAttr> makePlan(moe::KernelOp kernel);

} // namespace moec::compiler

#endif // MOEC_COMPILER_KERNELS_KERNELPLAN_H
